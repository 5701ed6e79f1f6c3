//! One single-threaded runtime per core.
//!
//! A connection and all its tasks run on one core, so no request crosses threads. New connections go to the cores in
//! turn. The caller's own runtime is the first one; the others get a thread each.

use std::{
    cell::Cell,
    io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;

thread_local! {
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Number of the core's runtime that this thread runs. The first one has 0, and so do threads without a runtime.
#[must_use]
pub fn core() -> usize {
    CORE.get()
}

/// A runtime for one core.
///
/// # Errors
/// The system provides no poll or no timer.
pub fn single() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Number of cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The runtimes for new connections; clones share them.
#[derive(Clone, Default)]
pub struct Workers(Arc<Others>);

#[derive(Default)]
struct Others {
    handles: Vec<Handle>,
    turn: AtomicUsize,
}

/// The threads behind [`Workers`]. Dropping them ends the threads and cancels their tasks.
pub struct Threads {
    stop: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `cores` runtimes, the caller's included.
    ///
    /// # Errors
    /// A thread or its runtime cannot be created.
    pub fn start(cores: usize) -> io::Result<(Workers, Threads)> {
        let stop = CancellationToken::new();
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        for number in 1..cores {
            let (runtime, stop) = (single()?, stop.clone());
            handles.push(runtime.handle().clone());
            let thread = thread::Builder::new().name(format!("core-{number}"));
            threads.push(thread.spawn(move || {
                CORE.set(number);
                runtime.block_on(stop.cancelled());
            })?);
        }
        let turn = AtomicUsize::new(0);
        let workers = Workers(Arc::new(Others { handles, turn }));
        Ok((workers, Threads { stop, threads }))
    }

    /// The next runtime in turn; `None` is the caller's own.
    pub(crate) fn next(&self) -> Option<&Handle> {
        let Others { handles, turn } = &*self.0;
        let cores = handles.len() + 1;
        let turn = turn.fetch_add(1, Ordering::Relaxed) % cores;
        handles.get(turn)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            // A thread that panicked has no tasks left.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_take_turns_and_end_with_their_threads() {
        let (workers, threads) = Workers::start(3).unwrap();
        let ids: Vec<_> = (0..6).map(|_| workers.next().map(Handle::id)).collect();
        assert_eq!(ids[..3], ids[3..]);
        assert_eq!(ids.iter().filter(|id| id.is_none()).count(), 2);

        let numbers = (0..3).map(|_| match workers.next() {
            Some(handle) => single()
                .unwrap()
                .block_on(handle.spawn(async { core() }))
                .unwrap(),
            None => core(),
        });
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);

        let running = workers
            .next()
            .map(|handle| handle.spawn(std::future::pending::<()>()));
        drop(threads);
        let ended = single().unwrap().block_on(running.unwrap());
        assert!(ended.unwrap_err().is_cancelled());
    }

    #[test]
    fn one_core_needs_no_thread() {
        let (workers, threads) = Workers::start(1).unwrap();
        assert!(workers.next().is_none() && threads.threads.is_empty());
    }
}
