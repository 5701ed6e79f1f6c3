//! TLS of a server.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use rustls::{
    CommonState, ServerConfig,
    server::{ServerConnectionData, UnbufferedServerConnection},
    unbuffered::UnbufferedStatus,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    noted_name::NotedName,
    stream::{TlsSide, TlsStream, invalid},
};

/// Connection of a client after the TLS handshake.
pub type ServerTls<IO> = TlsStream<IO, ServerSide>;

/// The server's side.
pub struct ServerSide {
    tls: UnbufferedServerConnection,
    server_name: Option<Arc<str>>,
}

impl TlsSide for ServerSide {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        sealed: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.tls.process_tls_records(sealed)
    }

    fn state(&self) -> &CommonState {
        &self.tls
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> ServerTls<IO> {
    /// Performs the handshake. On failure the client receives an alert. The deadline is up to the caller.
    ///
    /// # Errors
    /// The connection broke, or the client broke the protocol (`InvalidData`).
    pub async fn accept(io: IO, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut config = Arc::unwrap_or_clone(config);
        let noted = Arc::new(NotedName {
            resolver: Arc::clone(&config.cert_resolver),
            name: OnceLock::new(),
        });
        config.cert_resolver = noted.clone();
        let side = ServerSide {
            tls: UnbufferedServerConnection::new(Arc::new(config)).map_err(invalid)?,
            server_name: None,
        };
        let mut tls = Self::handshake(io, side).await?;
        tls.side.server_name = noted.name.get().cloned();
        Ok(tls)
    }
}

impl<IO> ServerTls<IO> {
    /// Name of the server in the client's handshake.
    #[must_use]
    pub fn server_name(&self) -> Option<&Arc<str>> {
        self.side.server_name.as_ref()
    }
}
