//! Body of a response. Polling it also sends the rest of the upload. At its end the transport returns to
//! its pool; dropped earlier, it resets the transport.

use std::{
    pin::Pin,
    sync::Weak,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    body::BodyError, chunked::Piece, framing::BodyDecoder, in_flight::InFlight, pool::Pool,
    transport::Transport,
};

pub(crate) struct DownloadBody<W: Transport> {
    /// `None` after the end.
    in_flight: Option<InFlight<W>>,
    decoder: BodyDecoder,
    /// Pool of the transport, if the transport can be reused.
    pool: Option<Weak<Pool<W>>>,
}

impl<W: Transport> DownloadBody<W> {
    pub(crate) fn new(
        in_flight: InFlight<W>,
        decoder: BodyDecoder,
        pool: Option<Weak<Pool<W>>>,
    ) -> Self {
        let mut download = DownloadBody {
            in_flight: Some(in_flight),
            decoder,
            pool,
        };
        if download.decoder.is_ended() {
            download.finish();
        }
        download
    }

    fn finish(&mut self) {
        let transport = self.in_flight.take().and_then(InFlight::finish);
        let pool = self.pool.take().and_then(|pool| pool.upgrade());
        if let (Some(transport), Some(pool)) = (transport, pool) {
            pool.put(transport);
        }
    }

    fn poll(
        in_flight: &mut InFlight<W>,
        decoder: &mut BodyDecoder,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Piece, BodyError>> {
        if let Poll::Ready(Err(error)) = in_flight.poll_upload(cx) {
            return Poll::Ready(Err(error));
        }
        in_flight.poll_body(decoder, cx).map_err(BodyError::from)
    }
}

impl<W: Transport> HttpBody for DownloadBody<W> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let download = self.get_mut();
        let Some(in_flight) = &mut download.in_flight else {
            return Poll::Ready(None);
        };
        let frame = match ready!(Self::poll(in_flight, &mut download.decoder, cx)) {
            Ok(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Ok(Piece::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Piece::End | Piece::More) => None,
            Err(error) => {
                download.in_flight = None;
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
        self.in_flight.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.decoder.size_hint()
    }
}
