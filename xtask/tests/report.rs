//! `xtask report` as a process.

use std::process::{Command, Stdio};

#[test]
fn report_ends_quietly_when_its_reader_has_closed_the_pipe() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("report").stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "{}", output.status);
}
