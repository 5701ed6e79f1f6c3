//! State that a session's driver shares with its handles: counters and the reason for the end.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{error::SessionError, mux::Counts, watched::Watched};

/// Counters since the session began. Bytes are those of DATA messages: yamux headers and inner TLS
/// included.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Open streams.
    pub streams_open: usize,
    /// Streams opened since the session began.
    pub streams_total: u64,
    /// DATA bytes received.
    pub bytes_in: u64,
    /// DATA bytes sent.
    pub bytes_out: u64,
    /// Bytes received on streams and not yet read.
    pub unread: usize,
    /// Round trip of the last acknowledged probe.
    pub rtt: Option<Duration>,
    /// Links that took over from a broken one.
    pub resumptions: u64,
    /// DATA bytes sent again over such links.
    pub bytes_repeated: u64,
}

pub(super) struct SharedSession {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    rtt_micros: AtomicU64,
    ended: Watched<Option<SessionError>>,
}

impl SharedSession {
    pub(super) fn new() -> Self {
        SharedSession {
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            rtt_micros: AtomicU64::new(0),
            ended: Watched::new(None),
        }
    }

    pub(super) fn count(&self, (bytes_in, bytes_out): (u64, u64), rtt: Option<Duration>) {
        self.bytes_in.store(bytes_in, Ordering::Relaxed);
        self.bytes_out.store(bytes_out, Ordering::Relaxed);
        let micros = rtt.map_or(0, |rtt| {
            u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX).max(1)
        });
        self.rtt_micros.store(micros, Ordering::Relaxed);
    }

    /// `resumed`: number of resumptions, and bytes sent again.
    pub(super) fn stats(&self, streams: Counts, resumed: (u64, u64)) -> Stats {
        let rtt = self.rtt_micros.load(Ordering::Relaxed);
        Stats {
            streams_open: streams.open,
            streams_total: streams.total,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            unread: streams.unread,
            rtt: (rtt != 0).then(|| Duration::from_micros(rtt)),
            resumptions: resumed.0,
            bytes_repeated: resumed.1,
        }
    }

    /// Stores the reason for the end. The first one counts.
    pub(super) fn end(&self, error: SessionError) {
        self.ended.update(|ended| {
            ended.get_or_insert(error);
        });
    }

    pub(super) async fn closed(&self) -> SessionError {
        self.ended.wait_for(Option::clone).await
    }
}
