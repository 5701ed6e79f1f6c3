//! Tests of `fairlead-bench delivery` with a program that is no hub.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use tempfile::TempDir;

#[test]
fn hub_that_cannot_start_is_named_with_the_end_of_its_log() {
    let dir = TempDir::new().unwrap();
    let broken = dir.path().join("fairlead");
    fs::write(&broken, "#!/bin/sh\necho port taken >&2\nexit 7\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlead-bench"));
    command.args(["delivery", "--part", "hub", "--stores", "sqlite", "--out"]);
    let command = command.arg(dir.path()).arg("--fairlead").arg(&broken);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("step: run hub, which ended: exit status: 7"),
        "{stderr}"
    );
    assert!(stderr.contains("logs/hub.log\nport taken"), "{stderr}");
}
