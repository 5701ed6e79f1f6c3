//! `fairlead guard`: becomes a program that dies with the process that started it.

use std::{
    convert::Infallible,
    ffi::OsString,
    io,
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
};

use nix::unistd::close;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Highest score: under memory pressure the kernel ends the program before the runner.
const OOM_SCORE: &str = "1000";

/// Program that a guard becomes.
#[derive(Debug, Clone)]
pub struct Guarded {
    /// Process id of the runner.
    pub parent: u32,
    /// Path of the program.
    pub program: OsString,
    /// Arguments of the program.
    pub args: Vec<OsString>,
}

/// Has the kernel send SIGKILL to this process when its parent ends, then becomes the program.
///
/// The signal reaches this process alone, none of its own children. In a container the end of the runner, its first
/// process, ends those too. Elsewhere the next runner on the same work folder ends them.
///
/// It closes every descriptor but the first three, so the caller owns none and runs nothing else.
///
/// # Errors
/// The parent has ended already, or the program cannot be started.
pub fn guard(guarded: &Guarded) -> io::Result<Infallible> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that ended before the call above sends no signal any more.
    let parent = i32::try_from(guarded.parent).ok().and_then(Pid::from_raw);
    if parent.is_none() || getppid() != parent {
        return Err(io::Error::other("the runner has ended"));
    }
    close_inherited();
    // Some systems forbid it; the program runs the same.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    Err(Command::new(&guarded.program).args(&guarded.args).exec())
}

/// Closes all descriptors but stdin, stdout and stderr: a careless parent may have left some open in the runner.
fn close_inherited() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let open: Vec<RawFd> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The descriptor of the list itself is closed already.
        let _ = close(descriptor);
    }
}
