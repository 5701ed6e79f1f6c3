//! The Debian package through its life, in a chroot of this machine's own files: `e2e/hosts/package` has the steps.

use std::process::Command;

use anyhow::ensure;

use crate::released;

#[test]
fn package_installs_starts_upgrades_and_purges() -> anyhow::Result<()> {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("SKIPPED: this machine has no dpkg-deb");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let script = format!("{}/hosts/package", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", &script])
        .arg(released("FAIRLEAD_DEB")?)
        .arg(folder.path())
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    ensure!(output.status.success(), "{}: {text}", output.status);
    eprintln!("{text}");
    Ok(())
}
