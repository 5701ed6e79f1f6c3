//! One run: its output, its state, and orders to end it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    output::{Output, Piece},
    refusal::Refusal,
    request::{RunKey, RunRequest},
    status::{Cause, Ending, RunState, RunStatus},
    work::WorkFolder,
};

/// Bytes of the end of stderr in a status.
const ERROR_TAIL_BYTES: usize = 4 << 10;

/// Stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Out,
    Error,
}

/// Order to end a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    cause: Cause,
    pub(crate) hard: bool,
}

/// One run.
pub(crate) struct Run {
    key: RunKey,
    /// Without the token.
    request: RunRequest,
    shared: Mutex<Shared>,
    folder: Mutex<Option<Arc<WorkFolder>>>,
    /// Number of changes of output and state.
    changes: watch::Sender<u64>,
    stop: watch::Sender<Option<Stop>>,
}

struct Shared {
    output: Output,
    error_tail: Vec<u8>,
    state: RunState,
}

impl Run {
    /// A run with a started program. `request` holds no token any more.
    pub(crate) fn new(
        key: RunKey,
        request: RunRequest,
        pid: u32,
        folder: Arc<WorkFolder>,
        output_bytes: usize,
    ) -> Self {
        Run {
            key,
            request,
            shared: Mutex::new(Shared {
                output: Output::new(output_bytes),
                error_tail: Vec::new(),
                state: RunState::Running { pid },
            }),
            folder: Mutex::new(Some(folder)),
            changes: watch::Sender::new(0),
            stop: watch::Sender::new(None),
        }
    }

    pub(crate) fn request(&self) -> &RunRequest {
        &self.request
    }

    /// Removes the folder, then notes the end.
    pub(crate) fn end(&self, ending: Ending) {
        let folder = self.folder.lock();
        let folder = folder.unwrap_or_else(PoisonError::into_inner).take();
        drop(folder);
        self.shared().state = RunState::Ended(ending);
        self.changed();
    }

    pub(crate) fn key(&self) -> &RunKey {
        &self.key
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds output. Of a query only stdout is kept, so that programs can read it.
    pub(crate) fn push(&self, kind: OutputKind, bytes: &[u8]) {
        let mut shared = self.shared();
        if kind == OutputKind::Error {
            shared.error_tail.extend_from_slice(bytes);
            let excess = shared.error_tail.len().saturating_sub(ERROR_TAIL_BYTES);
            shared.error_tail.drain(..excess);
        }
        if kind == OutputKind::Out || !self.request.operation.is_query() {
            shared.output.push(bytes);
        }
        drop(shared);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn status(&self) -> RunStatus {
        let shared = self.shared();
        RunStatus {
            key: self.key.clone(),
            operation: self.request.operation.name().to_owned(),
            state: shared.state.clone(),
            output_bytes: shared.output.total(),
            error_tail: String::from_utf8_lossy(&shared.error_tail).into_owned(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.shared().state, RunState::Ended(_))
    }

    /// Waits until output behind `from` is there, the run has ended, or the time is over.
    pub(crate) async fn read(
        &self,
        from: u64,
        max: usize,
        wait: Duration,
    ) -> Result<Piece, Refusal> {
        let until = Instant::now() + wait;
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            {
                let shared = self.shared();
                let piece = shared.output.read(from, max);
                let piece = piece.ok_or_else(|| Refusal::BeyondEnd(shared.output.total()))?;
                let ended = matches!(shared.state, RunState::Ended(_));
                if ended || !piece.bytes.is_empty() || Instant::now() >= until {
                    return Ok(piece);
                }
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Orders the end. The first cause stays; a hard order follows a soft one.
    pub(crate) fn stop(&self, cause: Cause, hard: bool) {
        self.stop.send_modify(|stop| {
            *stop = Some(match *stop {
                None => Stop { cause, hard },
                Some(earlier) => Stop {
                    cause: earlier.cause,
                    hard: earlier.hard || hard,
                },
            });
        });
    }

    pub(crate) fn stops(&self) -> watch::Receiver<Option<Stop>> {
        self.stop.subscribe()
    }

    pub(crate) fn stop_cause(&self) -> Option<Cause> {
        self.stop.borrow().map(|stop| stop.cause)
    }

    pub(crate) fn replace_token(&self, token: &str) -> Result<(), Refusal> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = folder.as_ref().ok_or(Refusal::Ended)?;
        Ok(folder.replace_token(token)?)
    }
}
