//! Standard output and standard error of commands. A test captures both, per thread.

use std::{
    cell::RefCell,
    io::{self, Write},
};

thread_local! {
    static CAPTURED: RefCell<Option<CapturedStreams>> = const { RefCell::new(None) };
}

/// Texts that the commands of a thread have written.
#[derive(Default)]
pub struct CapturedStreams {
    /// Standard output.
    pub stdout: String,
    /// Notes on standard error.
    pub stderr: String,
}

/// Captures both streams of this thread from now on, and disables prompts.
pub fn capture() {
    CAPTURED.set(Some(CapturedStreams::default()));
}

/// Texts since [`capture`], which ends.
pub fn take() -> CapturedStreams {
    CAPTURED.take().unwrap_or_default()
}

pub(crate) fn are_captured() -> bool {
    CAPTURED.with_borrow(Option::is_some)
}

pub(super) fn write(text: &str) -> io::Result<()> {
    let is_captured = CAPTURED.with_borrow_mut(|streams| {
        let streams = streams.as_mut();
        streams.map(|it| it.stdout.push_str(text)).is_some()
    });
    if is_captured {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

pub(super) fn note(line: &str) {
    let is_captured = CAPTURED.with_borrow_mut(|streams| {
        let streams = streams.as_mut();
        streams
            .map(|it| it.stderr += &format!("{line}\n"))
            .is_some()
    });
    if !is_captured {
        eprintln!("{line}");
    }
}
