//! A terminal with kubectl in it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use fairlead_testkit::spawner::on_lasting_thread;
use fairlead_testkit::wait::eventually;

/// A program on a terminal of its own. Dropping this hangs up.
#[derive(Debug)]
pub struct Terminal {
    line: String,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Child,
    /// Ends when the last process closes the terminal.
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts `command`, which must make its standard input its controlling terminal, like `setsid --ctty`.
    pub(crate) fn start(
        line: String,
        mut command: Command,
        rows: u16,
        columns: u16,
    ) -> anyhow::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        resize(&master, rows, columns)?;
        // Only the program may keep the terminal open; otherwise its output would never end.
        let name = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_owned();
        let child = on_lasting_thread(move || {
            let slave = File::options().read(true).write(true).open(name)?;
            command
                .stdin(slave.try_clone()?)
                .stdout(slave.try_clone()?)
                .stderr(slave)
                .spawn()
        })?
        .with_context(|| format!("cannot start {line} on a terminal"))?;
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone()?;
        let screen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            // The read ends with EIO when the last process closes its side.
            while let Ok(count @ 1..) = output.read(&mut chunk) {
                let mut all = sink.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(chunk.iter().take(count));
            }
        });
        Ok(Self {
            line,
            keyboard,
            screen,
            child,
            reader,
        })
    }

    /// Types keys; `\r` is the return key, `\x03` is Ctrl-C.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn write(&mut self, keys: &str) -> anyhow::Result<()> {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// Changes the window's size; the program gets SIGWINCH.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn resize(&self, rows: u16, columns: u16) -> anyhow::Result<()> {
        resize(&self.keyboard, rows, columns)
    }

    /// Everything printed so far, including control sequences.
    #[must_use]
    pub fn screen(&self) -> String {
        let all = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Types `keys` repeatedly until `text` has been printed.
    ///
    /// Some information reaches the program outside of its input, such as the size of its window, and perhaps
    /// only after the first keys.
    ///
    /// # Errors
    /// It is not printed in time, or the terminal is gone. The error quotes the screen.
    pub async fn type_until(
        &mut self,
        keys: &str,
        text: &str,
        deadline: Duration,
    ) -> anyhow::Result<()> {
        let what = format!("{text:?} after {keys:?} on the terminal of {}", self.line);
        let shown = eventually(deadline, &what, async || {
            self.write(keys).ok()?;
            self.screen().contains(text).then_some(())
        });
        let shown = shown.await;
        shown.with_context(|| format!("screen: {:?}", self.screen()))
    }

    /// Waits for the program's end, and for all of its output on the screen.
    ///
    /// # Errors
    /// It does not end in time. The error quotes the screen.
    pub async fn wait(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let what = format!("the end of {}", self.line);
        let end = eventually(deadline, &what, async || {
            let status = self.child.try_wait().transpose()?;
            (status.is_err() || self.reader.is_finished()).then_some(status)
        });
        let end = end.await.and_then(|status| Ok(status?));
        end.with_context(|| format!("screen: {:?}", self.screen()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn resize(terminal: impl AsFd, rows: u16, columns: u16) -> anyhow::Result<()> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}
