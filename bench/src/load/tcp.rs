//! Raw TCP connections to the services of the upstream, as a program without TLS makes them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};

use super::{LoadRoute, window::LoadWindow};
use crate::upstream::RawService;

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Deadline of one echo. A tunnel may accept a connection that it cannot forward.
const ECHO_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of an echo over an open connection, and over a new one.
const ECHO_BYTES: usize = 64;
const EXCHANGE_BYTES: usize = 1024;
/// Bytes of bulk that are read or written at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Work of each connection of the load client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TcpWork {
    /// 64 bytes to and fro, again and again
    Echo,
    /// A new connection, 1 KiB each way, and its end, again and again
    Exchange,
    /// Reads one endless stream
    Down,
    /// Writes one endless stream
    Up,
}

impl TcpWork {
    /// Name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Exchange => "exchange",
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

pub(crate) struct TcpTarget {
    address: SocketAddr,
    work: TcpWork,
}

/// An open connection; `None` for work that opens one each time.
pub(super) struct TcpConnection(Option<TcpStream>);

impl TcpTarget {
    pub(crate) fn new(address: SocketAddr, work: TcpWork) -> Self {
        Self { address, work }
    }

    /// One echo over a new connection.
    pub(crate) async fn once(&self) -> anyhow::Result<()> {
        let mut stream = self.dial().await?;
        echo::<ECHO_BYTES>(&mut stream, Some(RawService::Echo)).await
    }

    async fn dial(&self) -> anyhow::Result<TcpStream> {
        let stream = time::timeout(CONNECT_DEADLINE, TcpStream::connect(self.address));
        let stream = stream.await.context("no connection in time")??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn opened(&self, service: RawService) -> anyhow::Result<TcpConnection> {
        let mut stream = self.dial().await?;
        stream.write_all(&[service.byte()]).await?;
        Ok(TcpConnection(Some(stream)))
    }
}

impl LoadRoute for TcpTarget {
    type Connection = TcpConnection;

    async fn connect(&self) -> anyhow::Result<TcpConnection> {
        match self.work {
            TcpWork::Echo => self.opened(RawService::Echo).await,
            TcpWork::Exchange => Ok(TcpConnection(None)),
            TcpWork::Down => self.opened(RawService::Down).await,
            TcpWork::Up => self.opened(RawService::Up).await,
        }
    }

    async fn exchange(
        &self,
        connection: &mut TcpConnection,
        window: &Arc<LoadWindow>,
    ) -> anyhow::Result<()> {
        let Some(stream) = &mut connection.0 else {
            let mut stream = self.dial().await?;
            echo::<EXCHANGE_BYTES>(&mut stream, Some(RawService::Echo)).await?;
            window.count(EXCHANGE_BYTES);
            return Ok(());
        };
        match self.work {
            TcpWork::Down => read(stream, window).await,
            TcpWork::Up => write(stream, window).await,
            TcpWork::Echo | TcpWork::Exchange => {
                echo::<ECHO_BYTES>(stream, None).await?;
                window.count(ECHO_BYTES);
                Ok(())
            }
        }
    }
}

/// Sends that many bytes and reads them again. A new connection sends the byte of its service with them.
async fn echo<const BYTES: usize>(
    stream: &mut TcpStream,
    service: Option<RawService>,
) -> anyhow::Result<()> {
    let message = [b'x'; BYTES];
    let mut back = [0; BYTES];
    let echoed = time::timeout(ECHO_DEADLINE, async {
        match service {
            Some(service) => {
                let first = [[service.byte()].as_slice(), &message].concat();
                stream.write_all(&first).await?;
            }
            None => stream.write_all(&message).await?,
        }
        stream.read_exact(&mut back).await
    });
    echoed.await.context("no echo in time")??;
    ensure!(back == message, "the echo differs from the sent message");
    Ok(())
}

async fn read(stream: &mut TcpStream, window: &LoadWindow) -> anyhow::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    while !window.ended() {
        let bytes = stream.read(&mut buffer).await?;
        ensure!(bytes > 0, "the endless stream has ended");
        window.count(bytes);
    }
    Ok(())
}

/// The upstream counts these bytes.
async fn write(stream: &mut TcpStream, window: &LoadWindow) -> anyhow::Result<()> {
    let piece = vec![b'x'; PIECE_BYTES];
    while !window.ended() {
        stream.write_all(&piece).await?;
    }
    Ok(())
}
