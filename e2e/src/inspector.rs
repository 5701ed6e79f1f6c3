//! A relay before a hub that ends the outer TLS, as boxes of companies do, and records the bytes in it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_testkit::tls::{self, ServerTls, TestCa};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::netns::NetNs;

/// Bytes of one connection.
#[derive(Debug, Default)]
struct Recording {
    sent: Mutex<Vec<u8>>,
    received: Mutex<Vec<u8>>,
}

/// Hub behind a relay.
#[derive(Debug, Clone)]
struct Target {
    /// Name or address in its certificate.
    name: String,
    address: SocketAddr,
    /// Namespace of the relay; `None` is this machine's own network.
    net: Option<NetNs>,
}

impl Target {
    async fn connect(&self) -> anyhow::Result<TcpStream> {
        let Some(net) = &self.net else {
            return Ok(TcpStream::connect(self.address).await?);
        };
        let stream = net.connect(self.address)?;
        stream.set_nonblocking(true)?;
        Ok(TcpStream::from_std(stream)?)
    }
}

type Recordings = Arc<Mutex<Vec<Arc<Recording>>>>;

/// A running relay on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Inspector {
    address: SocketAddr,
    ca_file: PathBuf,
    recordings: Recordings,
    task: JoinHandle<()>,
}

impl Inspector {
    /// Starts it at this address of a namespace, before the hub called `name` at `hub`. Its CA is written into `folder`; it
    /// trusts servers of `server_ca`.
    ///
    /// # Errors
    /// The address is in use, or a file cannot be read or written.
    pub fn start_in(
        (net, at): (&NetNs, SocketAddr),
        (name, hub): (&str, SocketAddr),
        folder: &Path,
        server_ca: &Path,
    ) -> anyhow::Result<Self> {
        let ca = TestCa::new("inspector")?;
        let ca_file = folder.join("inspector-ca.pem");
        std::fs::write(&ca_file, ca.pem())?;
        let listener = net.listen(at)?;
        let target = Target {
            name: name.to_owned(),
            address: hub,
            net: Some(net.clone()),
        };
        let acceptor = TlsAcceptor::from(ca.leaf(&[name])?.server()?);
        Self::serve(listener, target, acceptor, (ca_file, server_ca))
    }

    /// Starts it before the hub at `url`. Its CA is written into `folder`; it trusts servers of `server_ca`.
    ///
    /// # Errors
    /// There is no free port, or a file cannot be read or written.
    pub async fn start(folder: &Path, url: &str, server_ca: &Path) -> anyhow::Result<Self> {
        let target = url.trim_start_matches("https://").trim_end_matches('/');
        let address: SocketAddr = target.parse()?;
        let target = Target {
            name: address.ip().to_string(),
            address,
            net: None,
        };
        let own = ServerTls::new("inspector")?;
        let ca_file = folder.join("inspector-ca.pem");
        std::fs::write(&ca_file, &own.ca_pem)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let acceptor = TlsAcceptor::from(own.server);
        Self::serve(listener, target, acceptor, (ca_file, server_ca))
    }

    fn serve(
        listener: std::net::TcpListener,
        target: Target,
        acceptor: TlsAcceptor,
        (ca_file, server_ca): (PathBuf, &Path),
    ) -> anyhow::Result<Self> {
        let client = tls::client(server_ca)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let recordings = Recordings::default();
        let known = Arc::clone(&recordings);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let recording = Arc::new(Recording::default());
                known
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Arc::clone(&recording));
                let (acceptor, client) = (acceptor.clone(), Arc::clone(&client));
                let target = target.clone();
                // A connection that breaks is the agent's matter.
                tokio::spawn(async move {
                    relay(stream, acceptor, client, (&target, &recording)).await
                });
            }
        });
        Ok(Inspector {
            address,
            ca_file,
            recordings,
            task,
        })
    }

    /// URL for `--hub`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// CA of its certificates, for `--ca-file`.
    #[must_use]
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// Bytes of all clients within the outer TLS. Payloads of WebSocket frames follow without their masks.
    #[must_use]
    pub fn sent(&self) -> Vec<u8> {
        self.all(|it| {
            let sent = it.sent.lock().unwrap_or_else(PoisonError::into_inner);
            let payloads = unmasked(&sent).unwrap_or_default();
            [sent.as_slice(), &payloads].concat()
        })
    }

    /// Bytes of all servers within the outer TLS. Their WebSocket frames have no masks.
    #[must_use]
    pub fn received(&self) -> Vec<u8> {
        self.all(|it| {
            let received = it.received.lock();
            received.unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    fn all(&self, bytes: impl Fn(&Recording) -> Vec<u8>) -> Vec<u8> {
        let recordings = self.recordings.lock();
        let recordings = recordings.unwrap_or_else(PoisonError::into_inner);
        recordings.iter().flat_map(|it| bytes(it)).collect()
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(
    client: TcpStream,
    acceptor: TlsAcceptor,
    config: Arc<ClientConfig>,
    (target, recording): (&Target, &Recording),
) -> anyhow::Result<()> {
    let server = target.connect().await?;
    let client = acceptor.accept(client).await?;
    let name = ServerName::try_from(target.name.clone())?;
    let server = TlsConnector::from(config).connect(name, server).await?;
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    tokio::try_join!(
        copy(from_client, to_server, &recording.sent),
        copy(from_server, to_client, &recording.received)
    )?;
    Ok(())
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    recorded: &Mutex<Vec<u8>>,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        let Some(bytes) = buffer.get(..length).filter(|it| !it.is_empty()) else {
            to.shutdown().await?;
            return Ok(());
        };
        recorded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        to.write_all(bytes).await?;
        to.flush().await?;
    }
}

/// Payloads of the WebSocket frames behind the head of a request (RFC 6455, section 5.2); a partial frame ends them.
fn unmasked(sent: &[u8]) -> Option<Vec<u8>> {
    let end = sent.windows(4).position(|it| it == b"\r\n\r\n")?;
    let mut rest = sent.get(end + 4..)?;
    let mut payloads = Vec::new();
    while let [_, length, tail @ ..] = rest {
        let (length, tail) = match (length & 0x7f, tail) {
            (126, [a, b, tail @ ..]) => (usize::from(u16::from_be_bytes([*a, *b])), tail),
            (127, tail) => {
                let Some((length, tail)) = tail.split_first_chunk::<8>() else {
                    break;
                };
                (usize::try_from(u64::from_be_bytes(*length)).ok()?, tail)
            }
            (short, tail) => (usize::from(short), tail),
        };
        let Some((mask, tail)) = tail.split_first_chunk::<4>() else {
            break;
        };
        let Some((payload, tail)) = tail.split_at_checked(length) else {
            break;
        };
        let masks = mask.iter().cycle();
        payloads.extend(payload.iter().zip(masks).map(|(byte, mask)| byte ^ mask));
        rest = tail;
    }
    Some(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lose_their_masks() {
        let mut sent = b"GET /connect HTTP/1.1\r\n\r\n".to_vec();
        let mask = [1_u8, 2, 3, 4];
        let masked = |text: &[u8]| -> Vec<u8> {
            let bytes = text.iter().zip(mask.iter().cycle());
            bytes.map(|(byte, mask)| byte ^ mask).collect()
        };
        sent.extend([0x82, 0x80 | 3]);
        sent.extend(mask);
        sent.extend(masked(b"one"));
        let long = vec![b'x'; 300];
        sent.extend([0x82, 0x80 | 126, 1, 44]);
        sent.extend(mask);
        sent.extend(masked(&long));
        sent.extend([0x82, 0x80 | 9, 1, 2]);
        let expected = [b"one".as_slice(), &long].concat();
        assert_eq!(unmasked(&sent), Some(expected));
    }
}
