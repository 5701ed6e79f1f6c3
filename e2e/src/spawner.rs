//! Starts children in a way that they cannot outlive this process, however it ends.

use std::ffi::OsStr;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Context;

type Job = Box<dyn FnOnce() + Send>;

/// The words to put before a program so that the kernel kills it when its parent is gone.
pub(crate) fn die_with_parent(program: &OsStr) -> [&OsStr; 4] {
    [
        OsStr::new("setpriv"),
        OsStr::new("--pdeathsig=KILL"),
        OsStr::new("--"),
        program,
    ]
}

/// Runs `start` on a thread that lives as long as this process.
///
/// The kernel takes the end of the *thread* that started a child for the end of its parent, and the thread of
/// one test may end long before a child that several tests share.
pub(crate) fn on_lasting_thread<T: Send + 'static>(
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
        // Nobody waits any more: the caller is gone, and what was started ends by being dropped.
        drop(answer.send(start()));
    }))
    .ok()
    .context("the thread that starts children is gone")?;
    answered
        .recv()
        .context("the thread that starts children panicked")
}
