//! Body of a response. Polling it also sends the rest of the upload. At its end the wire returns to
//! its pool; dropped earlier, it resets the wire.

use std::{
    pin::Pin,
    sync::Weak,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{BodyError, asking::Asking, chunked::Piece, framing::Decoder, pool::Pool, wire::Wire};

pub(super) struct Download<W: Wire> {
    /// `None` after the end.
    asking: Option<Asking<W>>,
    decoder: Decoder,
    /// Pool of the wire, if the wire can be reused.
    pool: Option<Weak<Pool<W>>>,
}

impl<W: Wire> Download<W> {
    pub(super) fn new(asking: Asking<W>, decoder: Decoder, pool: Option<Weak<Pool<W>>>) -> Self {
        let mut download = Download {
            asking: Some(asking),
            decoder,
            pool,
        };
        if download.decoder.is_ended() {
            download.finish();
        }
        download
    }

    fn finish(&mut self) {
        let wire = self.asking.take().and_then(Asking::finish);
        let pool = self.pool.take().and_then(|pool| pool.upgrade());
        if let (Some(wire), Some(pool)) = (wire, pool) {
            pool.put(wire);
        }
    }

    fn poll(
        asking: &mut Asking<W>,
        decoder: &mut Decoder,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Piece, BodyError>> {
        if let Poll::Ready(Err(error)) = asking.poll_upload(cx) {
            return Poll::Ready(Err(error));
        }
        asking.poll_body(decoder, cx).map_err(BodyError::from)
    }
}

impl<W: Wire> HttpBody for Download<W> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let download = self.get_mut();
        let Some(asking) = &mut download.asking else {
            return Poll::Ready(None);
        };
        let frame = match ready!(Self::poll(asking, &mut download.decoder, cx)) {
            Ok(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Ok(Piece::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Piece::End | Piece::More) => None,
            Err(error) => {
                download.asking = None;
                return Poll::Ready(Some(Err(error)));
            }
        };
        // Readers that know the length do not poll for the end.
        if download.decoder.is_ended() {
            download.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.asking.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.decoder.size_hint()
    }
}
