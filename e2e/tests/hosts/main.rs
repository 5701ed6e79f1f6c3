//! Files of a release on a host: the static program in an empty chroot and in the image's root file system, the systemd
//! units, the Debian package. `make hosts` builds the files and names them in variables.

#![allow(
    clippy::large_futures,
    clippy::unwrap_used,
    reason = "a test may panic, and waits for one future at a time"
)]

mod chroot;
mod image;
mod package;
mod units;

use std::path::{Path, PathBuf};

use anyhow::Context;
use fairlead_e2e::setting;

/// File or folder of the release that this variable names.
fn released(variable: &str) -> anyhow::Result<PathBuf> {
    // Relative to the root of the repository, like the variables in the Makefile.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = setting(variable).with_context(|| format!("{variable} is not set: `make hosts`"))?;
    root.join(&path)
        .canonicalize()
        .with_context(|| format!("{variable}: {path}"))
}
