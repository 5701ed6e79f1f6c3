//! Mount namespaces for tests that need a disk of their own. They need root; without it the test is skipped.

use std::{path::Path, process::Command};

/// Restarts this program in a mount namespace of its own, with `what` and `folder` as arguments.
///
/// Prints `SKIPPED` where the namespace is not permitted.
///
/// # Panics
/// The restarted program fails.
#[expect(clippy::print_stdout, reason = "a test reports that it is skipped")]
pub fn restart_isolated(what: &str, folder: &Path) {
    let isolated = ["--mount", "--propagation", "private"];
    let permitted = Command::new("unshare").args(isolated).arg("true").output();
    match permitted {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr);
            return println!("SKIPPED: {what} needs root: {}", reason.trim());
        }
        Err(error) => return println!("SKIPPED: {what}: unshare: {error}"),
    }
    let ran = Command::new("unshare")
        .args(isolated)
        .arg(std::env::current_exe().unwrap())
        .args([what.as_ref(), folder.as_os_str()])
        .status();
    assert!(ran.unwrap().success());
}

/// Runs a program with `folder` as its last argument.
///
/// # Errors
/// The program cannot be started or fails; the text quotes its standard error.
pub fn run(program: &str, args: &[&str], folder: &Path) -> Result<(), String> {
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
