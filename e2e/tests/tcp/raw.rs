//! A WebSocket by hand, so that nothing of the program under test checks itself.

use anyhow::{Context, bail, ensure};
use fairlead_e2e::{RawAnswer, RawClient};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::world::{STEP_DEADLINE, TcpWorld};

/// Both directions of a connection.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A TCP connection on a WebSocket.
pub(crate) struct RawTcp(Box<dyn Io>);

/// A frame of the hub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WsFrame {
    Bytes(Vec<u8>),
    HalfClose,
    Close(u16, String),
}

/// Head of a request for a connection.
pub(crate) fn head(token: &str, cluster: &str, target: &str) -> String {
    format!(
        "GET /v1/clusters/{cluster}/tcp/{target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: v1.tcp.fairlead.io\r\n\r\n"
    )
}

/// The hub's answer to a request that it refuses.
pub(crate) async fn refusal(client: &RawClient, head: &str) -> anyhow::Result<RawAnswer> {
    let answer = client.send(head).await?;
    ensure!(answer.status != 101, "it is not refused: {head}");
    Ok(answer)
}

impl RawTcp {
    pub(crate) async fn open(world: &TcpWorld, token: &str, target: &str) -> anyhow::Result<Self> {
        let head = head(token, &world.joining.id, target);
        let mut io: Box<dyn Io> = Box::new(world.hub.front()?.connect().await?);
        io.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let byte = timeout(STEP_DEADLINE, io.read_u8())
                .await
                .context("no head")??;
            answer.push(byte);
        }
        let answer = String::from_utf8(answer)?;
        ensure!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        // RFC 6455, section 1.3.
        ensure!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
        ensure!(answer.contains("v1.tcp.fairlead.io"), "{answer}");
        Ok(RawTcp(io))
    }

    /// Sends one binary message, masked with zeros.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let length = u8::try_from(bytes.len()).ok().filter(|it| *it < 126);
        let mut frame = vec![0x82, 0x80 | length.context("too long")?, 0, 0, 0, 0];
        frame.extend_from_slice(bytes);
        self.0.write_all(&frame).await?;
        Ok(self.0.flush().await?)
    }

    pub(crate) async fn half_close(&mut self) -> anyhow::Result<()> {
        self.send(&[]).await
    }

    /// The next frame; pings of the hub are skipped.
    pub(crate) async fn receive(&mut self) -> anyhow::Result<WsFrame> {
        let frame = timeout(STEP_DEADLINE, self.frame()).await;
        frame.context("no frame in time")?
    }

    async fn frame(&mut self) -> anyhow::Result<WsFrame> {
        loop {
            let (first, length) = (self.0.read_u8().await?, self.0.read_u8().await?);
            let length = match length {
                126 => self.0.read_u16().await?.into(),
                127.. => bail!("a frame of {length}"),
                short => usize::from(short),
            };
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).await?;
            return Ok(match first {
                0x82 if body.is_empty() => WsFrame::HalfClose,
                0x82 => WsFrame::Bytes(body),
                0x89 => continue,
                0x88 => {
                    let (code, reason) = body.split_at_checked(2).context("no code")?;
                    let code = u16::from_be_bytes([code[0], code[1]]);
                    WsFrame::Close(code, String::from_utf8(reason.to_vec())?)
                }
                other => bail!("a frame that begins with {other:#x}"),
            });
        }
    }
}
