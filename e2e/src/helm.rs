//! The real Helm.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::ensure;

/// Builds Helm, unless it is cached, and returns its path.
///
/// # Errors
/// It cannot be built.
pub fn program() -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/build");
    let built = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "helm/build failed");
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}
