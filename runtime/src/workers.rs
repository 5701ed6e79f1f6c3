//! One single-threaded runtime per core.
//!
//! A connection and all its tasks run on one core. New connections go to the cores in turn, or to the core of what they
//! talk to, so that no request crosses threads. The caller's own runtime is the first one; the others get a thread each.

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
pub struct Workers(Arc<Runtimes>);

#[derive(Default)]
struct Runtimes {
    /// By the numbers of the cores.
    handles: Vec<Handle>,
    turn: AtomicUsize,
}

/// The threads behind [`Workers`]. Dropping them ends the threads and cancels their tasks.
pub struct Threads {
    stop: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `cores` runtimes, `first` included.
    ///
    /// # Errors
    /// A thread or its runtime cannot be created.
    pub fn start(first: &Handle, cores: usize) -> io::Result<(Workers, Threads)> {
        let stop = CancellationToken::new();
        let (mut handles, mut threads) = (vec![first.clone()], Vec::new());
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
        let workers = Workers(Arc::new(Runtimes { handles, turn }));
        Ok((workers, Threads { stop, threads }))
    }

    /// The next runtime in turn; `None` without any, where all tasks run on the caller's.
    pub(crate) fn next(&self) -> Option<&Handle> {
        let Runtimes { handles, turn } = &*self.0;
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        handles.get(turn.checked_rem(handles.len())?)
    }

    /// The runtime of a core, by its number in [`core()`].
    pub(crate) fn at(&self, core: usize) -> Option<&Handle> {
        self.0.handles.get(core)
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
        let first = single().unwrap();
        let (workers, threads) = Workers::start(first.handle(), 3).unwrap();
        let ids: Vec<_> = (0..6).map(|_| workers.next().map(Handle::id)).collect();
        assert_eq!(ids[..3], ids[3..]);
        assert_eq!(ids[0], Some(first.handle().id()));
        let on = |number| workers.at(number).unwrap().spawn(async { core() });
        let numbers = (0..3).map(|number| first.block_on(on(number)).unwrap());
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2]);
        assert!(workers.at(3).is_none());

        let running = workers.at(1).unwrap().spawn(std::future::pending::<()>());
        drop(threads);
        assert!(first.block_on(running).unwrap_err().is_cancelled());
    }

    #[test]
    fn one_core_needs_no_thread() {
        let first = single().unwrap();
        let (workers, threads) = Workers::start(first.handle(), 1).unwrap();
        assert!(workers.at(0).is_some() && workers.at(1).is_none());
        assert!(threads.threads.is_empty());
        assert!(Workers::default().next().is_none());
    }
}
