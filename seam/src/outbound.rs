//! Connections that the hub makes for agents, to addresses outside of it.

use async_trait::async_trait;
use fairlead_api::Failure;
use fairlead_certs::AgentIdentity;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to an address outside of the hub.
pub trait OutboundIo: AsyncRead + AsyncWrite + Unpin + Send {}

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> OutboundIo for IO {}

/// Makes connections for agents. Limits, deadlines and records are its own.
#[async_trait]
pub trait Outbound: Send + Sync {
    /// Connects to `target`, which is `host:port`.
    ///
    /// # Errors
    /// The address is not allowed for this cluster, or cannot be reached.
    async fn connect(
        &self,
        agent: &AgentIdentity,
        target: &str,
    ) -> Result<Box<dyn OutboundIo>, Failure>;
}
