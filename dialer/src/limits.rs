//! Limits of a session.

use std::time::Duration;

use crate::memory::MemoryBudget;

/// Initial window of a stream, in bytes.
pub(crate) const INITIAL_WINDOW: u32 = 256 * 1024;
/// [`INITIAL_WINDOW`] as a size.
pub(crate) const INITIAL_WINDOW_BYTES: usize = INITIAL_WINDOW as usize;
/// Time without a message after which a peer counts as dead. Any message of the link counts,
/// because the acknowledgement of a probe may wait behind megabytes on a slow path. If only one
/// direction is dead, the end that receives nothing gives up. An idle peer is probed in time, so the
/// next link answers within 11 s of the last message.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_millis(10_500);
/// A thousand user requests, and some streams for requests of hub and agent.
const DEFAULT_MAX_STREAMS: usize = 1000 + 56;
/// An agent without a certificate sends one request at a time, and may have abandoned earlier ones.
pub(crate) const MAX_UNAUTHENTICATED_STREAMS: usize = 4;

/// Bounds of one session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Limit of open streams, both directions together. The lower limit of the two sides applies to
    /// opening.
    pub max_streams: usize,
    /// Bytes that a peer can make this side hold: the windows of all streams, and read-ahead of the
    /// link. At least 256 KiB per stream; the rest is for windows of fast readers to grow.
    pub receive_budget: usize,
    /// Deadline of each step of a dial or an accept.
    pub handshake: Duration,
    /// Capacity of the retransmit buffer in bytes, each way. When it is full, streams wait.
    pub unacknowledged: usize,
    /// Time that a session without a link waits for its agent. Zero: the session ends with its
    /// link.
    pub resume_window: Duration,
    /// Memory shared with the other sessions of the process: retransmit buffers beyond 256 KiB, and
    /// window growth.
    pub memory: MemoryBudget,
}

impl Default for Limits {
    /// 1,056 streams, their 264 MiB of windows plus 32 MiB of growth, 10 s, 4 MiB, 60 s, and no
    /// limit on all sessions together.
    fn default() -> Self {
        Limits {
            max_streams: DEFAULT_MAX_STREAMS,
            receive_budget: DEFAULT_MAX_STREAMS * INITIAL_WINDOW_BYTES + 32 * 1024 * 1024,
            handshake: Duration::from_secs(10),
            unacknowledged: 4 * 1024 * 1024,
            resume_window: Duration::from_secs(60),
            memory: MemoryBudget::default(),
        }
    }
}

impl Limits {
    /// Receive budget, raised to the initial windows of all streams.
    pub(crate) fn budget(&self) -> usize {
        self.receive_budget
            .max(self.max_streams * INITIAL_WINDOW_BYTES)
    }

    /// Limits for a peer without a certificate, which may only enrol.
    #[must_use]
    pub(crate) fn unauthenticated(&self) -> Self {
        Limits {
            max_streams: MAX_UNAUTHENTICATED_STREAMS,
            receive_budget: MAX_UNAUTHENTICATED_STREAMS * INITIAL_WINDOW_BYTES,
            ..self.clone()
        }
    }
}

/// Output that the outer TLS of a link holds, in bytes: what a session queues at once, with the overhead of its records. With less, each
/// round of bulk takes two writes.
pub const OUTER_TLS_BUFFER_BYTES: usize = 160 * 1024;
