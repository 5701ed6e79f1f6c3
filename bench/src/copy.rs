//! Role `copy`: accepts TCP connections and copies each to one of its own, with TLS on either leg.
//!
//! It stands for the client's end of tunnels that have none, and is the one-hop proxy of raw TCP.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use fairlead_testkit::server::listen;
use hyper::http::uri::Authority;
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpStream},
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::{dial::Dial, tls};

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Buffer of one direction of one connection.
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Port of 127.0.0.1 on which connections are accepted
    #[arg(long)]
    listen: u16,
    /// Certificate for TLS on that port, PEM
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// HOST:PORT of the other leg
    #[arg(long)]
    to: Authority,
    /// Trusted CA certificates for TLS on the other leg, PEM; without it that leg has no TLS
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// Connect through this Unix socket, with CONNECT
    #[arg(long, value_name = "SOCKET")]
    via: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let acceptor = match args.cert.as_ref().zip(args.key.as_ref()) {
        None => None,
        Some((cert, key)) => {
            let config = tls::server(&std::fs::read(cert)?, &std::fs::read(key)?)?;
            Some(TlsAcceptor::from(Arc::new(config)))
        }
    };
    let tls = args.ca_file.as_deref().map(tls::client).transpose()?;
    let dial = Dial::new(&args.to, args.to.host(), tls, args.via)?;
    serve(listen(args.listen)?, acceptor, Arc::new(dial)).await
}

async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    dial: Arc<Dial>,
) -> anyhow::Result<()> {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                drop(tokio::spawn(one(
                    socket,
                    peer,
                    acceptor.clone(),
                    dial.clone(),
                )));
            }
            Err(error) => {
                eprintln!("accept: {error}");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn one(socket: TcpStream, peer: SocketAddr, acceptor: Option<TlsAcceptor>, dial: Arc<Dial>) {
    let copied = async {
        socket.set_nodelay(true)?;
        match acceptor {
            None => copy(socket, &dial).await,
            Some(acceptor) => {
                let accepting = time::timeout(CONNECT_DEADLINE, acceptor.accept(socket));
                copy(accepting.await.context("no handshake in time")??, &dial).await
            }
        }
    };
    if let Err(error) = copied.await {
        eprintln!("connection of {peer}: {error:#}");
    }
}

async fn copy<S: AsyncRead + AsyncWrite + Unpin>(mut near: S, dial: &Dial) -> anyhow::Result<()> {
    let far = time::timeout(CONNECT_DEADLINE, dial.open()).await;
    let mut far = far.context("no connection in time")??.into_inner();
    // Clients end bulk in the middle, so an error here means nothing.
    let _ = copy_bidirectional_with_sizes(&mut near, &mut far, BUFFER_BYTES, BUFFER_BYTES).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::tls::BenchServerTls;

    /// Starts a copier to this address and returns its own.
    fn copier(
        to: SocketAddr,
        acceptor: Option<TlsAcceptor>,
        ca_file: Option<PathBuf>,
    ) -> SocketAddr {
        let listener = listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let to: Authority = to.to_string().parse().unwrap();
        let tls = ca_file.map(|file| tls::client(&file).unwrap());
        let dial = Dial::new(&to, to.host(), tls, None).unwrap();
        drop(tokio::spawn(serve(listener, acceptor, Arc::new(dial))));
        address
    }

    #[tokio::test]
    async fn plain_client_reaches_a_plain_server_over_tls_with_half_close() {
        let dir = tempfile::TempDir::new().unwrap();
        let server = listen(0).unwrap();
        let server_address = server.local_addr().unwrap();
        drop(tokio::spawn(async move {
            let (mut socket, _) = server.accept().await.unwrap();
            let mut text = String::new();
            socket.read_to_string(&mut text).await.unwrap();
            socket.write_all(text.as_bytes()).await.unwrap();
        }));
        let tls = BenchServerTls::new("copy").unwrap();
        let ca_file = dir.path().join("ca.pem");
        std::fs::write(&ca_file, &tls.ca_pem).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls.config));
        let hop = copier(server_address, Some(acceptor), None);
        let address = copier(hop, None, Some(ca_file));

        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"to and fro").await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = String::new();
        client.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "to and fro");
    }
}
