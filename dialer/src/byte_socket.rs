//! The bytes of one TCP connection on a WebSocket (RFC 6455), which has no half-close: an empty binary message stands for
//! it. Neither end of the stream is the end of the WebSocket; only a close frame or an error is.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::websocket::{CONTROL_LIMIT, Decoder, Encoder, Event, Opcode, SocketRole, WsError};

/// Bytes per message: one read of a splice.
const MESSAGE_BYTES: usize = 32 * 1024;
/// Room for one read.
const READ_BYTES: usize = 16 * 1024;
/// Bytes of a close frame before its reason.
const CLOSE_CODE_BYTES: usize = 2;

/// Both directions of one TCP connection on a WebSocket whose handshake is done.
pub struct ByteSocket<IO> {
    io: IO,
    decoder: Decoder,
    encoder: Encoder,
    /// Received bytes from the next frame on.
    input: BytesMut,
    /// Received bytes for the reader.
    payload: Bytes,
    input_state: InputState,
    /// Encoded frames that are still to be written.
    output: Bytes,
    /// Frame of our own, to be written after `output`.
    pong: Bytes,
    unflushed: bool,
    is_output_ended: bool,
    /// The reader knows of the peer's half-close.
    is_end_read: bool,
}

enum InputState {
    Open,
    /// The peer has sent its half-close.
    HalfClosed,
    Failed(ByteSocketError),
}

/// Failure of a [`ByteSocket`], inside of an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ByteSocketError {
    /// The peer sent something that the protocol does not allow.
    #[error("{0}")]
    Invalid(#[from] WsError),
    /// The peer sent a message after its half-close.
    #[error("a message after the half-close")]
    AfterEnd,
    /// The peer closed the WebSocket before both half-closes.
    #[error("the peer closed the WebSocket ({}): {reason}", code.unwrap_or(NO_CLOSE_CODE))]
    Closed {
        /// Code of the close frame.
        code: Option<u16>,
        /// Reason of the close frame, without control characters.
        reason: String,
    },
    /// The connection ended without a close frame.
    #[error("the connection ended without a close frame")]
    Cut,
}

const NORMAL_CLOSE_CODE: u16 = 1000;
/// Stands for a close frame without a code (RFC 6455, section 7.4.1).
const NO_CLOSE_CODE: u16 = 1005;

impl ByteSocketError {
    /// The failure in an error of a [`ByteSocket`].
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// True for an error that is the clean end of a whole connection: a close frame with the code 1000 (RFC 6455, section 7.4.1).
    #[must_use]
    pub fn is_clean_end(error: &io::Error) -> bool {
        let code = match Self::of(error) {
            Some(ByteSocketError::Closed { code, .. }) => *code,
            _ => None,
        };
        code == Some(NORMAL_CLOSE_CODE)
    }
}

impl From<ByteSocketError> for io::Error {
    fn from(error: ByteSocketError) -> Self {
        let kind = match error {
            ByteSocketError::Invalid(_) | ByteSocketError::AfterEnd => io::ErrorKind::InvalidData,
            ByteSocketError::Closed { .. } => io::ErrorKind::ConnectionAborted,
            ByteSocketError::Cut => io::ErrorKind::UnexpectedEof,
        };
        io::Error::new(kind, error)
    }
}

impl<IO> ByteSocket<IO> {
    /// The end with `role`. `read` holds bytes received after the handshake.
    pub fn new(io: IO, role: SocketRole, read: &[u8]) -> Self {
        ByteSocket {
            io,
            decoder: Decoder::new(role),
            encoder: Encoder::new(role),
            input: BytesMut::from(read),
            payload: Bytes::new(),
            input_state: InputState::Open,
            output: Bytes::new(),
            pong: Bytes::new(),
            unflushed: false,
            is_output_ended: false,
            is_end_read: false,
        }
    }

    /// Decodes all complete frames up to the first one with bytes for the reader; false if more input is needed.
    fn decode(&mut self) -> Result<bool, ByteSocketError> {
        while let Some(frame) = self.decoder.decode(&mut self.input)? {
            let mut body = self.input.split_to(frame.end);
            body.advance(frame.head);
            let message = match frame.event {
                Event::Whole => body.freeze(),
                Event::Assembled => self.decoder.assembled().into(),
                Event::Ping => {
                    self.answer(&body);
                    continue;
                }
                Event::Close(code) => {
                    let reason = body.get(CLOSE_CODE_BYTES..).unwrap_or_default();
                    let reason = String::from_utf8_lossy(reason);
                    let reason = reason.chars().filter(|it| !it.is_control()).collect();
                    return Err(ByteSocketError::Closed { code, reason });
                }
                Event::Part | Event::Pong => continue,
            };
            match self.input_state {
                InputState::Open if message.is_empty() => self.input_state = InputState::HalfClosed,
                InputState::Open => self.payload = message,
                _ => return Err(ByteSocketError::AfterEnd),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Keeps the answer to a ping; only the newest one needs an answer (RFC 6455, section 5.5.3).
    fn answer(&mut self, body: &[u8]) {
        let frame = self
            .encoder
            .frame(Opcode::Pong, body.len(), |out| out.put_slice(body));
        self.pong = frame.unwrap_or_default();
    }
}

impl<IO: AsyncRead + Unpin> ByteSocket<IO> {
    /// Reads until there are bytes for the reader, or the peer's half-close.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        loop {
            if let InputState::Failed(error) = &self.input_state {
                return Poll::Ready(Err(error.clone().into()));
            }
            let is_ended = matches!(self.input_state, InputState::HalfClosed);
            if !self.payload.is_empty() || is_ended {
                return Poll::Ready(Ok(()));
            }
            match self.decode() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    self.input_state = InputState::Failed(error);
                    continue;
                }
            }
            ready!(self.poll_input(cx))?;
        }
    }

    /// Reads more frames, or the end of the connection.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.reserve(READ_BYTES);
        let read = poll_read_buf(Pin::new(&mut self.io), cx, &mut self.input);
        if read.is_pending() && self.input.is_empty() {
            // An idle connection keeps no room.
            self.input = BytesMut::new();
        }
        if ready!(read)? == 0 {
            self.input_state = InputState::Failed(ByteSocketError::Cut);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> ByteSocket<IO> {
    /// Writes all encoded frames.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.output.is_empty() {
                self.output = std::mem::take(&mut self.pong);
            }
            if self.output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.output.advance(taken),
            }
            self.unflushed = true;
        }
    }

    fn poll_flushed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_output(cx))?;
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn encode(&mut self, opcode: Opcode, body: &[u8]) -> io::Result<()> {
        let frame = self
            .encoder
            .frame(opcode, body.len(), |out| out.put_slice(body));
        self.output = frame.map_err(io::Error::other)?;
        Ok(())
    }

    /// Sends a close frame after all written bytes, and ends the connection in this direction.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        poll_fn(|cx| self.poll_output(cx)).await?;
        let room = CONTROL_LIMIT - CLOSE_CODE_BYTES;
        let reason = reason
            .get(..reason.floor_char_boundary(room))
            .unwrap_or_default();
        let body = [&code.to_be_bytes(), reason.as_bytes()].concat();
        self.encode(Opcode::Close, &body)?;
        poll_fn(|cx| self.poll_flushed(cx)).await?;
        poll_fn(|cx| Pin::new(&mut self.io).poll_shutdown(cx)).await
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> ByteSocket<IO> {
    /// Follows the peer's control frames after its half-close, and answers its pings. Ready with the end of the WebSocket.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if let InputState::Failed(error) = &self.input_state {
                return Poll::Ready(error.clone().into());
            }
            let decoded = self.decode();
            if !self.pong.is_empty()
                && let Poll::Ready(Err(error)) = self.poll_flushed(cx)
            {
                return Poll::Ready(error);
            }
            if let Err(error) = decoded {
                self.input_state = InputState::Failed(error);
                continue;
            }
            if let Err(error) = ready!(self.poll_input(cx)) {
                return Poll::Ready(error);
            }
        }
    }

    /// Reads until the peer has closed, and drops its bytes. A close frame with code 1000 is a clean end.
    ///
    /// # Errors
    /// [`ByteSocketError`], for any other end.
    pub async fn closed(&mut self) -> io::Result<()> {
        while !matches!(self.input_state, InputState::HalfClosed) {
            poll_fn(|cx| self.poll_message(cx)).await?;
            self.payload = Bytes::new();
        }
        let error = poll_fn(|cx| self.poll_closed(cx)).await;
        match ByteSocketError::is_clean_end(&error) {
            true => Ok(()),
            false => Err(error),
        }
    }
}

/// The peer's half-close is the end of the stream. A read after it waits for the end of the WebSocket, which is its error.
impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for ByteSocket<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        if socket.is_end_read {
            return socket.poll_closed(cx).map(Err);
        }
        let polled = socket.poll_message(cx);
        if !socket.pong.is_empty()
            && let Poll::Ready(Err(error)) = socket.poll_flushed(cx)
        {
            return Poll::Ready(Err(error));
        }
        ready!(polled)?;
        let taken = socket.payload.len().min(buf.remaining());
        buf.put_slice(&socket.payload.split_to(taken));
        socket.is_end_read = taken == 0 && buf.remaining() > 0;
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ByteSocket<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(socket.poll_output(cx))?;
        let body = bytes
            .get(..bytes.len().min(MESSAGE_BYTES))
            .unwrap_or_default();
        socket.encode(Opcode::Binary, body)?;
        // The rest is written by the next write or flush.
        if let Poll::Ready(Err(error)) = socket.poll_output(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(body.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flushed(cx)
    }

    /// Sends the half-close. The WebSocket stays open for the other direction.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        if !socket.is_output_ended {
            ready!(socket.poll_output(cx))?;
            socket.encode(Opcode::Binary, &[])?;
            socket.is_output_ended = true;
        }
        socket.poll_flushed(cx)
    }
}

#[cfg(test)]
mod tests;
