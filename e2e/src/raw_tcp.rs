//! A WebSocket by hand, so that nothing of the program under test checks itself.

use std::{fmt, time::Duration};

use anyhow::{Context, bail, ensure};
use fairlead_testkit::raw::{ByteStream, RawAnswer, RawClient};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// A TCP connection on a WebSocket.
pub struct RawTcp(Box<dyn ByteStream>);

impl fmt::Debug for RawTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawTcp").finish_non_exhaustive()
    }
}

/// A frame of the hub.
#[derive(Debug, PartialEq, Eq)]
pub enum WsFrame {
    /// Bytes of the connection.
    Bytes(Vec<u8>),
    /// End of the target's direction.
    HalfClose,
    /// A close with its status code and reason.
    Close(u16, String),
}

/// Head of a request for a connection.
#[must_use]
pub fn head(token: &str, cluster: &str, target: &str) -> String {
    format!(
        "GET /v1/clusters/{cluster}/tcp/{target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: v1.tcp.fairlead.io\r\n\r\n"
    )
}

/// The hub's answer to a request that it refuses.
///
/// # Errors
/// There is none, or the hub accepts the request.
pub async fn refusal(client: &RawClient, head: &str) -> anyhow::Result<RawAnswer> {
    let answer = client.send(head).await?;
    ensure!(answer.status != 101, "it is not refused: {head}");
    Ok(answer)
}

impl RawTcp {
    /// Opens a connection to a target in the cluster.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn open(
        client: &RawClient,
        token: &str,
        cluster: &str,
        target: &str,
    ) -> anyhow::Result<Self> {
        let head = head(token, cluster, target);
        let mut io = client.connect().await?;
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

    /// Sends one binary message of at most 125 bytes, masked with zeros.
    ///
    /// # Errors
    /// The connection has ended, or the message is too long.
    pub async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let length = u8::try_from(bytes.len()).ok().filter(|it| *it < 126);
        let mut frame = vec![0x82, 0x80 | length.context("too long")?, 0, 0, 0, 0];
        frame.extend_from_slice(bytes);
        self.0.write_all(&frame).await?;
        Ok(self.0.flush().await?)
    }

    /// Ends the direction to the target.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn half_close(&mut self) -> anyhow::Result<()> {
        self.send(&[]).await
    }

    /// The next frame; pings of the hub are skipped.
    ///
    /// # Errors
    /// The connection has ended, or no frame comes in time.
    pub async fn receive(&mut self) -> anyhow::Result<WsFrame> {
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
                    let (code, reason) = body.split_first_chunk::<2>().context("no code")?;
                    let code = u16::from_be_bytes(*code);
                    WsFrame::Close(code, String::from_utf8(reason.to_vec())?)
                }
                other => bail!("a frame that begins with {other:#x}"),
            });
        }
    }
}
