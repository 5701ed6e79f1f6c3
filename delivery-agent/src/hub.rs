//! Requests to the hub.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

/// A request that did not get an answer of the hub.
#[derive(Debug, thiserror::Error)]
#[error("the hub did not answer: {0}")]
pub struct HubUnreachable(pub String);

/// Connection to the hub over the sessions of this cluster's agent.
#[async_trait]
pub trait HubConnection: Send + Sync {
    /// Waits for a session, sends a request with a path below `/agent/v1/`, and reads its whole answer.
    ///
    /// # Errors
    /// [`HubUnreachable`] if the exchange breaks, lasts too long, or if the body has more than `limit` bytes.
    async fn send(
        &self,
        request: Request<Bytes>,
        limit: usize,
    ) -> Result<Response<Bytes>, HubUnreachable>;
}
