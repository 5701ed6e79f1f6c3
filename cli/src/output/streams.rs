//! Standard output and standard error of commands. Unit tests read both per thread.

#[cfg(not(test))]
pub(super) use process::{note, write};
#[cfg(test)]
pub(crate) use thread::take;
#[cfg(test)]
pub(super) use thread::{note, write};

#[cfg(not(test))]
mod process {
    use std::io::{self, Write};

    pub(in crate::output) fn write(text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }

    pub(in crate::output) fn note(line: &str) {
        eprintln!("{line}");
    }
}

#[cfg(test)]
mod thread {
    use std::{cell::RefCell, io};

    thread_local! {
        static WRITTEN: RefCell<(String, String)> = RefCell::default();
    }

    pub(in crate::output) fn write(text: &str) -> io::Result<()> {
        WRITTEN.with_borrow_mut(|(out, _)| out.push_str(text));
        Ok(())
    }

    pub(in crate::output) fn note(line: &str) {
        WRITTEN.with_borrow_mut(|(_, notes)| *notes += &format!("{line}\n"));
    }

    /// Standard output and standard error of this thread since the last call.
    pub(crate) fn take() -> (String, String) {
        WRITTEN.take()
    }
}
