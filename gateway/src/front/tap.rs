//! Recording of a terminal session: the bytes that pass between client and cluster also go to the recording's queue.
//!
//! A full queue holds the session back to the speed of the recording's writer.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use fairlead_api::{Code, Failure};
use fairlead_audit::{Piece, Recorder, SessionFacts, Unrecordable};
use fairlead_exchange::Body;
use http::{HeaderValue, Request, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::PollSender;

use crate::{
    front::{authorize::Permit, record::RequestRecord},
    hub::Hub,
};

/// Sender of a recording that has begun.
pub(crate) struct Tap {
    pieces: PollSender<Piece>,
    is_required: bool,
}

impl Tap {
    /// Begins a recording if the policy wants one for this request.
    ///
    /// # Errors
    /// `FL-5109`
    pub(crate) fn begin(
        hub: &Hub,
        permit: &Permit,
        request: &Request<Body>,
        path: &str,
        upgrade: Option<&HeaderValue>,
        record: &RequestRecord,
    ) -> Result<Option<Tap>, Failure> {
        let recorder = hub.audit.get().and_then(|audit| audit.recorder());
        let Some(recorder) = recorder else {
            return Ok(None);
        };
        begin(&recorder, permit, request, path, upgrade, record)
            .map_err(|error| Failure::because(Code::Unrecordable, error))
    }
}

fn begin(
    recorder: &Recorder,
    permit: &Permit,
    request: &Request<Body>,
    path: &str,
    upgrade: Option<&HeaderValue>,
    record: &RequestRecord,
) -> Result<Option<Tap>, Unrecordable> {
    let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offered: Vec<&str> = offered
        .iter()
        .map(|value| value.to_str().unwrap_or("?"))
        .collect();
    let grant = permit.grant();
    let recording = recorder.check(SessionFacts {
        method: request.method().as_str(),
        path,
        cluster: permit.cluster().as_str(),
        tenant: grant.tenant.as_str(),
        role: grant.strongest().as_str(),
        upgrade: upgrade.and_then(|it| it.to_str().ok()),
        protocols: &offered.join(","),
    })?;
    let Some(recording) = recording else {
        return Ok(None);
    };
    let is_required = recording.is_required();
    match record.begin_recording(recording) {
        Ok(pieces) => Ok(pieces.map(|pieces| Tap {
            pieces: PollSender::new(pieces),
            is_required,
        })),
        Err(error) if is_required => Err(error),
        Err(_) => Ok(None),
    }
}

/// A client's connection whose bytes are recorded, if there is a tap.
pub(crate) struct RecordedIo<IO> {
    io: IO,
    tap: Option<Tap>,
}

impl<IO> RecordedIo<IO> {
    pub(crate) fn new(io: IO, tap: Option<Tap>) -> Self {
        RecordedIo { io, tap }
    }

    /// Waits for a place in the queue; fails if a required recording has broken off.
    fn poll_place(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(tap) = &mut self.tap else {
            return Poll::Ready(Ok(()));
        };
        if ready!(tap.pieces.poll_reserve(cx)).is_ok() {
            return Poll::Ready(Ok(()));
        }
        let is_required = tap.is_required;
        self.tap = None;
        Poll::Ready(match is_required {
            true => Err(io::Error::other("the recording broke off")),
            false => Ok(()),
        })
    }

    /// Uses the place.
    fn record(&mut self, piece: impl FnOnce() -> Piece) {
        if let Some(tap) = &mut self.tap {
            // The next wait for a place finds a closed queue.
            drop(tap.pieces.send_item(piece()));
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for RecordedIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_place(cx))?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        if !read.is_empty() {
            self.record(|| Piece::to_server(read));
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for RecordedIo<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_place(cx))?;
        let taken = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        let written = buf.get(..taken).unwrap_or_default();
        if !written.is_empty() {
            self.record(|| Piece::to_client(written));
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
