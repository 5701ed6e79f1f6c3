//! Connections to a named service by the server name of TLS. The hub reads the first message of the client and passes all
//! bytes on; the target ends TLS.

use std::{io::Cursor, net::SocketAddr, sync::Arc};

use bytes::BytesMut;
use fairlead_seam::NamedService;
use rustls::server::Acceptor;
use tokio::{io::AsyncReadExt, time::timeout};

use crate::{
    front::{Front, HANDSHAKE_TIMEOUT, socket::ClientSocket},
    metrics::{HandshakeOutcome, TlsLayer},
};

/// Limit of the first message in bytes. With post-quantum keys it has about two thousand.
const MAX_HELLO_BYTES: usize = 16 * 1024;

impl Front {
    /// The service that the client names, with the socket as it was; `None` if the client sends nothing in time.
    pub(super) async fn service_by_name(
        &self,
        mut socket: ClientSocket,
        peer: SocketAddr,
    ) -> Option<(ClientSocket, Option<Arc<NamedService>>)> {
        let hub = &self.hub;
        if !hub.services.has_tls_names() {
            return Some((socket, None));
        }
        let slot = hub.front_handshakes.acquire(peer.ip());
        let outcome = tokio::select! {
            read = timeout(HANDSHAKE_TIMEOUT, read_hello(&mut socket)) => match read {
                Ok(Ok((hello, name))) => {
                    socket.replay(hello.freeze());
                    let service = name.and_then(|name| hub.services.of_tls_name(&name));
                    return Some((socket, service));
                }
                Ok(Err(_)) => HandshakeOutcome::Failed,
                Err(_) => HandshakeOutcome::Timeout,
            },
            () = slot.evicted() => HandshakeOutcome::Evicted,
            () = hub.sessions_ended.cancelled() => HandshakeOutcome::Refused,
        };
        hub.metrics.handshake(TlsLayer::Front, outcome);
        None
    }
}

/// Reads the first message of TLS, and finds the server name in it. Bytes that are no such message have no name: the
/// handshake that follows refuses them.
async fn read_hello(socket: &mut ClientSocket) -> std::io::Result<(BytesMut, Option<String>)> {
    let mut hello = BytesMut::new();
    loop {
        let mut block = [0; 4096];
        let count = socket.read(&mut block).await?;
        hello.extend_from_slice(block.get(..count).unwrap_or_default());
        // A new one each time: a client sends its message in one or two pieces.
        let mut acceptor = Acceptor::default();
        let mut unread = Cursor::new(&hello);
        let mut parsed = Ok(None);
        while matches!(parsed, Ok(None)) && acceptor.read_tls(&mut unread)? > 0 {
            parsed = acceptor.accept();
        }
        match parsed {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Ok((hello, name));
            }
            Ok(None) if count > 0 && hello.len() < MAX_HELLO_BYTES => {}
            Ok(None) | Err(_) => return Ok((hello, None)),
        }
    }
}
