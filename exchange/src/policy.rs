//! Rules of a server for its peers, and the signal that ends a served connection.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;

use crate::{error::HttpError, fields::MAX_HEAD};

/// Settings of a server whose clients are strangers.
///
/// Such clients may use HTTP/1.0, each form of a target and empty lines before a head, and may send requests before the answer to
/// the last one. A head with two readings is refused from them, too.
#[derive(Debug, Clone, Copy)]
pub struct ClientSettings {
    /// Largest head, in bytes.
    pub max_head_bytes: usize,
    /// Time from the end of an answer to the end of the next head.
    pub head_timeout: Duration,
    /// Whole answer to a refused head, as the last one of its connection.
    pub refusal: fn(&HttpError) -> Bytes,
}

/// Signal that the current request of a connection is its last one. An idle connection ends at once.
///
/// The future of the connection must be polled after the signal.
#[derive(Debug, Default)]
pub struct ConnectionShutdown(AtomicBool);

impl ConnectionShutdown {
    /// Sends the signal.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Rules of a served transport.
#[derive(Clone, Copy)]
pub(crate) enum ServerPolicy<'a> {
    /// A hub or an agent: each head has one form, and no byte comes before an answer.
    Peer,
    Clients(&'a ClientSettings, &'a ConnectionShutdown),
}

impl ServerPolicy<'_> {
    pub(crate) fn is_shut_down(self) -> bool {
        match self {
            ServerPolicy::Peer => false,
            ServerPolicy::Clients(_, shutdown) => shutdown.has_begun(),
        }
    }

    pub(crate) fn head_form(self) -> HeadForm {
        match self {
            ServerPolicy::Peer => HeadForm::default(),
            ServerPolicy::Clients(settings, _) => HeadForm {
                max_bytes: settings.max_head_bytes,
                is_of_client: true,
            },
        }
    }
}

/// Accepted form of heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadForm {
    pub(crate) max_bytes: usize,
    /// Heads of any client, see [`ClientSettings`].
    pub(crate) is_of_client: bool,
}

impl Default for HeadForm {
    fn default() -> Self {
        HeadForm {
            max_bytes: MAX_HEAD,
            is_of_client: false,
        }
    }
}
