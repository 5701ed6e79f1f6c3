//! Folder with the figures and logs of one run.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use time::{OffsetDateTime, macros::format_description};

/// A new folder in `out`, named after the current time, with an empty folder `logs`.
pub(crate) fn results_folder(out: &Path) -> anyhow::Result<PathBuf> {
    let name = OffsetDateTime::now_utc().format(format_description!(
        "[year]-[month]-[day]T[hour]-[minute]-[second]Z"
    ))?;
    let folder = out.join(name);
    std::fs::create_dir_all(folder.join("logs"))
        .with_context(|| format!("making {}", folder.display()))?;
    Ok(std::path::absolute(folder)?)
}
