//! Disks for tests, mounted where nobody else sees them. That takes root; without, who wants them is told so.

use std::{path::Path, process::Command};

/// Begins this program anew where its mounts are its own, with these arguments.
pub(crate) fn alone(what: &str, folder: &Path) {
    let alone = ["--mount", "--propagation", "private"];
    let may = Command::new("unshare").args(alone).arg("true").output();
    match may {
        Ok(may) if may.status.success() => {}
        Ok(may) => {
            let why = String::from_utf8_lossy(&may.stderr);
            return println!("SKIPPED: {what}, which takes root: {}", why.trim());
        }
        Err(error) => return println!("SKIPPED: {what}: unshare: {error}"),
    }
    let ran = Command::new("unshare")
        .args(alone)
        .arg(std::env::current_exe().unwrap())
        .args([what.as_ref(), folder.as_os_str()])
        .status();
    assert!(ran.unwrap().success());
}

/// With a folder behind the arguments.
pub(crate) fn run(program: &str, args: &[&str], folder: &Path) -> Result<(), String> {
    let ran = Command::new(program).args(args).arg(folder).output();
    let ran = ran.map_err(|error| format!("{program}: {error}"))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&ran.stderr).trim()
        )),
    }
}
