//! TLS of a client.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, CommonState,
    client::{ClientConnectionData, UnbufferedClientConnection},
    pki_types::ServerName,
    unbuffered::UnbufferedStatus,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::stream::{TlsSide, TlsStream, invalid};

/// Connection to a server after the TLS handshake.
pub type ClientTls<IO> = TlsStream<IO, UnbufferedClientConnection>;

impl TlsSide for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        sealed: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(sealed)
    }

    fn state(&self) -> &CommonState {
        self
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> ClientTls<IO> {
    /// Performs the handshake with the server of this name. On failure the server receives an alert. The deadline is up to the
    /// caller.
    ///
    /// # Errors
    /// The connection broke, or `InvalidData` with the [`rustls::Error`]: the server is not trusted, or broke the protocol.
    pub async fn connect(
        io: IO,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let side = UnbufferedClientConnection::new(config, name).map_err(invalid)?;
        Self::handshake(io, side).await
    }
}
