//! Stages and errors of a dial.

use std::{borrow::Cow, fmt, future::Future, time::Duration};

use fairlead_api::{Code, Failure};
use rustls::pki_types::UnixTime;
use tokio::time::timeout;

use super::trace::RefusalEvidence;
use crate::{close::CloseReason, link::LinkEnd, secure::SecureError};

/// Progress of a dial. Displays as dns, tcp, proxy, tls, upgrade, link, identity, protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialStage {
    /// Resolving the name.
    Dns,
    /// Connecting to an address.
    Tcp,
    /// Connecting through the proxy.
    Proxy,
    /// Handshake of the outer TLS.
    Tls,
    /// Upgrade to a WebSocket.
    Upgrade,
    /// HELLO messages and resumption.
    Link,
    /// Handshake of the inner TLS.
    Identity,
    /// Protocol inside the inner TLS.
    Protocol,
}

impl DialStage {
    /// One word for messages and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DialStage::Dns => "dns",
            DialStage::Tcp => "tcp",
            DialStage::Proxy => "proxy",
            DialStage::Tls => "tls",
            DialStage::Upgrade => "upgrade",
            DialStage::Link => "link",
            DialStage::Identity => "identity",
            DialStage::Protocol => "protocol",
        }
    }
}

impl fmt::Display for DialStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Failed dial with stage, address, HTTP status and cause. `cause` is one clause without secrets.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{stage}: {cause}")]
pub struct DialError {
    /// Stage that failed.
    pub stage: DialStage,
    /// Address of the hub or the proxy, if known.
    pub address: Option<String>,
    /// Status of an HTTP response, if there was one.
    pub http_status: Option<u16>,
    /// Error code.
    pub code: Code,
    /// Cause: one clause without secrets.
    pub cause: String,
    /// Next step of this case; `None`: the next step of the code.
    pub next: Option<Cow<'static, str>>,
    /// Answer of the peer that refused, if there was one.
    pub refusal: Option<Box<RefusalEvidence>>,
    /// The hub's certificate is outside its validity period by the local clock.
    pub(crate) out_of_date: Option<OutOfDate>,
}

/// Next step if the hub drains.
const WAIT_FOR_HUB: &str = "No action is needed: the agent dials again by itself, other hubs first; if it goes on, start the hub again.";

impl DialError {
    pub(crate) fn new(stage: DialStage, code: Code, cause: impl fmt::Display) -> Self {
        DialError {
            stage,
            address: None,
            http_status: None,
            code,
            cause: cause.to_string(),
            next: None,
            refusal: None,
            out_of_date: None,
        }
    }

    /// A failure before anything was sent.
    #[must_use]
    pub fn here(failure: Failure) -> Self {
        DialError {
            next: failure.next,
            ..DialError::new(DialStage::Tls, failure.code, failure.cause)
        }
    }

    /// Replaces the next step of the code.
    pub(crate) fn next(self, step: impl Into<Cow<'static, str>>) -> Self {
        DialError {
            next: Some(step.into()),
            ..self
        }
    }

    /// Next step for the operator, one sentence.
    #[must_use]
    pub fn next_step(&self) -> &str {
        self.next
            .as_deref()
            .unwrap_or_else(|| self.code.next_step())
    }

    pub(super) fn at(mut self, address: impl fmt::Display) -> Self {
        self.address.get_or_insert_with(|| address.to_string());
        self
    }

    pub(super) fn refused_with(mut self, refusal: Box<RefusalEvidence>) -> Self {
        self.http_status = Some(refusal.status);
        self.refusal = Some(refusal);
        self
    }
}

/// Runs a step that waits for the peer, with a deadline.
pub(crate) async fn step<T>(
    stage: DialStage,
    deadline: Duration,
    work: impl Future<Output = Result<T, DialError>>,
) -> Result<T, DialError> {
    timeout(deadline, work).await.unwrap_or_else(|_| {
        let cause = format!("no answer within {} s", deadline.as_secs_f32());
        Err(DialError::new(stage, Code::DialTimeout, cause))
    })
}

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        Failure {
            next: error.next,
            ..Failure::with_cause(error.code, error.cause)
        }
    }
}

impl From<LinkEnd> for DialError {
    fn from(end: LinkEnd) -> Self {
        if let LinkEnd::Closed(CloseReason::Busy) = end {
            let cause = "the hub gave the place of this handshake to another connection";
            return DialError::new(DialStage::Link, Code::HandshakesFull, cause);
        }
        if let LinkEnd::Closed(CloseReason::Draining) = end {
            let cause = "the hub is shutting down";
            return DialError::new(DialStage::Link, Code::Draining, cause).next(WAIT_FOR_HUB);
        }
        let code = match end {
            LinkEnd::Closed(_) | LinkEnd::Eof | LinkEnd::Broken(_) | LinkEnd::Silent(_) => {
                Code::SessionBroke
            }
            LinkEnd::Garbled(_)
            | LinkEnd::Protocol(_)
            | LinkEnd::Unproved
            | LinkEnd::InvalidCount(_)
            | LinkEnd::Secure(_)
            | LinkEnd::Versions { .. } => Code::DialProtocol,
        };
        DialError::new(DialStage::Link, code, end)
    }
}

impl From<SecureError> for DialError {
    fn from(error: SecureError) -> Self {
        let (stage, code) = match &error {
            SecureError::Hub(_) => (DialStage::Identity, Code::DialHubIdentity),
            SecureError::Refused(_) => (DialStage::Identity, Code::DialIdentity),
            SecureError::Protocol(_) => (DialStage::Protocol, Code::DialProtocol),
            SecureError::Link(end) => return DialError::from(end.clone()),
        };
        DialError::new(stage, code, error)
    }
}

/// Side of a certificate's validity period on which the local clock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutOfDate {
    Expired { now: UnixTime, not_after: UnixTime },
    NotYet { now: UnixTime, not_before: UnixTime },
}
