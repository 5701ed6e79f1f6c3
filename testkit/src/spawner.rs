//! Starting child processes that cannot outlive this process.

use std::ffi::OsStr;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Context;

type Job = Box<dyn FnOnce() + Send>;

/// Command prefix by which the kernel kills the program when its parent is gone. Ctrl-C ends the program, also if this
/// process ignores it, as jobs in the background of a shell do.
#[must_use]
pub fn die_with_parent(program: &OsStr) -> [&OsStr; 6] {
    [
        OsStr::new("setpriv"),
        OsStr::new("--pdeathsig=KILL"),
        OsStr::new("--"),
        OsStr::new("env"),
        OsStr::new("--default-signal=INT"),
        program,
    ]
}

/// Runs `start` on a thread that lives as long as this process.
///
/// The kernel regards the *thread* that started a child as its parent. The thread of one test may end long
/// before a child that several tests share.
///
/// # Errors
/// The thread is gone, or `start` panicked.
pub fn on_lasting_thread<T: Send + 'static>(
    start: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    static JOBS: OnceLock<SyncSender<Job>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (jobs, queue) = sync_channel::<Job>(16);
        thread::spawn(move || {
            for job in queue {
                job();
            }
        });
        jobs
    });
    let (answer, answered) = sync_channel(1);
    jobs.send(Box::new(move || {
        // If the caller is gone, dropping the result ends the child.
        drop(answer.send(start()));
    }))
    .ok()
    .context("the thread that starts children is gone")?;
    answered
        .recv()
        .context("the thread that starts children panicked")
}
