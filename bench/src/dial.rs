//! Connections of the bench's own clients: TCP, or CONNECT through a Unix socket, with or without TLS.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, ensure};
use hyper::http::uri::Authority;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

/// Longest answer to CONNECT, in bytes.
const MAX_HEAD_BYTES: usize = 4096;

pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

pub(crate) struct Dial {
    address: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    via: Option<PathBuf>,
}

impl Dial {
    pub(crate) fn new(
        to: &Authority,
        server_name: &str,
        tls: Option<Arc<ClientConfig>>,
        via: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let port = to
            .port_u16()
            .unwrap_or(if tls.is_some() { 443 } else { 80 });
        let tls = match tls {
            None => None,
            Some(tls) => {
                let name = ServerName::try_from(server_name.to_owned())?;
                Some((TlsConnector::from(tls), name))
            }
        };
        Ok(Self {
            address: format!("{}:{port}", to.host()),
            tls,
            via,
        })
    }

    /// Opens a connection. Deadlines are up to the caller.
    pub(crate) async fn open(&self) -> anyhow::Result<TokioIo<Box<dyn Io>>> {
        let socket: Box<dyn Io> = match &self.via {
            None => {
                let socket = TcpStream::connect(&self.address).await?;
                socket.set_nodelay(true)?;
                Box::new(socket)
            }
            Some(path) => Box::new(connect(UnixStream::connect(path).await?, &self.address).await?),
        };
        Ok(TokioIo::new(match &self.tls {
            None => socket,
            Some((tls, name)) => Box::new(tls.connect(name.clone(), socket).await?),
        }))
    }
}

/// Sends CONNECT. Reading byte by byte loses nothing, since the peer sends nothing after its answer until the
/// client does.
async fn connect<S: Io>(mut socket: S, to: &str) -> anyhow::Result<S> {
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(
            head.len() < MAX_HEAD_BYTES,
            "the answer to CONNECT has no end"
        );
        head.push(socket.read_u8().await.context("no answer to CONNECT")?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.split_ascii_whitespace().nth(1);
    ensure!(status == Some("200"), "CONNECT was answered by {head}");
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(answer: &'static [u8]) -> anyhow::Result<()> {
        let (near, mut far) = tokio::io::duplex(8 * 1024);
        far.write_all(answer).await.unwrap();
        far.shutdown().await.unwrap();
        connect(near, "127.0.0.1:1").await.map(drop)
    }

    #[tokio::test]
    async fn only_a_200_opens_the_tunnel() {
        assert!(
            answered(b"HTTP/1.1 200 Connection Established\r\n\r\n")
                .await
                .is_ok()
        );
        assert!(answered(b"HTTP/1.1 503 none\r\n\r\n").await.is_err());
        assert!(answered(b"HTTP/1.1 200").await.is_err());
        assert!(answered(&[b'x'; 5000]).await.is_err());
    }
}
