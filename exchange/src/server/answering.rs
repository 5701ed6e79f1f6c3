//! The end of a turn: the response to a request, and the rest of the request.

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as HttpBody;
use tokio::{sync::oneshot, time::timeout};

use super::{Serving, Turn};
use crate::{
    body::BodyError,
    error::HttpError,
    framing::BodyEncoder,
    head::ResponseForm,
    lines::reply::{Reply, ReplyHead},
    policy::ServerPolicy,
    sending::{Filled, Sending},
    shared_reader::{PeerState, UNEXPECTED_DATA},
    transport::Transport,
    upgrade::Upgraded,
};

/// Time limit for the unread rest of a peer's body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a client to take its last answer, and to stop sending.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of bytes that are read and dropped meanwhile.
const MAX_LINGER_BYTES: usize = 1024 * 1024;
/// Size of the output buffer that an idle connection of a client keeps, in bytes.
const KEPT_OUTPUT_BYTES: usize = 4096;
/// Fields of the largest map that it keeps for the next head.
const MAX_KEPT_FIELDS: usize = 32;
/// Writes per poll, before other tasks get their turn.
const WRITES_PER_POLL: usize = 16;

/// Response whose head is queued.
pub(super) struct BegunAnswer<B> {
    sending: Sending<B>,
    /// Receiver of the raw stream, after a switch of protocols.
    upgrade: Option<oneshot::Sender<Upgraded>>,
    has_body: bool,
    close: bool,
}

impl<W: Transport> Serving<'_, W> {
    /// Queues the head of the response.
    ///
    /// Apart from [`Serving::finish_answer`], so that the head takes no memory of the connection while its body is sent.
    pub(super) fn begin_answer<B>(
        &mut self,
        answer: Reply<B>,
        turn: Turn,
    ) -> io::Result<BegunAnswer<B>>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        let (mut head, body) = answer.into_parts();
        if turn.kind.head {
            head.tell_length(&body);
        }
        let status = head.status();
        if turn.expects_continue {
            self.reader.answers();
        }
        let switched = turn.kind.is_switched_by(status);
        if status.is_informational() && !switched {
            return Err(HttpError::Malformed("the response was not requested").into());
        }
        let bodiless = switched || turn.kind.is_bodiless(status);
        let encoder = match bodiless {
            true => BodyEncoder::Nothing,
            false => head
                .framing(&body, turn.takes_trailers)
                .map_err(io::Error::other)?,
        };
        let encoder = match encoder {
            BodyEncoder::Chunked(_) if turn.old => BodyEncoder::ToEnd,
            encoder => encoder,
        };
        let close = self.write_head(&mut head, &encoder, &turn, switched);
        // The bytes of its body could also be the tunnel's.
        if switched && turn.upgrade.is_none() {
            return Err(HttpError::Malformed("a CONNECT has a body").into());
        }
        let sending = match self.policy {
            ServerPolicy::Peer => Sending::gathering(body, encoder),
            // The agent has batched the body.
            ServerPolicy::Clients(..) => {
                head.into_map().into_iter().for_each(|map| self.keep(map));
                Sending::new(body, encoder)
            }
        };
        Ok(BegunAnswer {
            sending,
            upgrade: turn.upgrade.filter(|_| switched),
            has_body: turn.has_body,
            close,
        })
    }

    /// Sends the response; true if another request may follow. The guard is dropped when the body has ended.
    pub(super) async fn finish_answer<B, G>(
        &mut self,
        answer: &mut BegunAnswer<B>,
        guard: G,
    ) -> io::Result<bool>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        if let Some(upgrade) = answer.upgrade.take() {
            return self.switch(upgrade).await;
        }
        poll_fn(|cx| self.poll_send(cx, &mut answer.sending)).await?;
        drop(guard);
        let (has_body, close) = (answer.has_body, answer.close);
        match self.policy {
            ServerPolicy::Peer => self.end_turn_of_peer(has_body, close).await,
            ServerPolicy::Clients(..) => self.end_turn_of_client(has_body, close).await,
        }
    }

    /// Queues the head of the response; true if it is the last one.
    fn write_head(
        &mut self,
        head: &mut ReplyHead,
        encoder: &BodyEncoder,
        turn: &Turn,
        switched: bool,
    ) -> bool {
        let announced = head.closes();
        let is_of_client = matches!(self.policy, ServerPolicy::Clients(..));
        let last = self.policy.is_shut_down() || (turn.has_body && self.reader.is_broken());
        let close = turn.close || announced || last;
        if is_of_client && *encoder == BodyEncoder::Nothing && !turn.kind.head {
            // RFC 9110, section 8.6.
            head.forget_length();
        }
        let form = ResponseForm {
            old: turn.old,
            // HTTP/1.0 has no other way.
            adds_close: is_of_client && close && !announced && !switched && !turn.old,
            adds_date: is_of_client,
        };
        head.write(encoder, form, self.out.tail());
        close
    }

    /// Keeps the memory of a map for the next head.
    fn keep(&mut self, mut headers: HeaderMap) {
        if headers.capacity() <= MAX_KEPT_FIELDS {
            headers.clear();
            self.spare = headers;
        }
    }

    /// Reads the rest of the request; true if another one may follow.
    async fn end_turn_of_peer(&mut self, has_body: bool, close: bool) -> io::Result<bool> {
        if has_body {
            timeout(DRAIN_TIMEOUT, poll_fn(|cx| self.reader.poll_drain(cx)))
                .await
                .map_err(|_| {
                    HttpError::Malformed("the rest of the body did not arrive in time")
                })??;
        }
        self.out.rest(0);
        if close {
            self.finish().await?;
        }
        Ok(!close)
    }

    /// As [`Serving::end_turn_of_peer`], but the connection ends if the rest of the request has not arrived.
    async fn end_turn_of_client(&mut self, has_body: bool, close: bool) -> io::Result<bool> {
        let is_whole = match has_body {
            false => true,
            true => {
                let drained = poll_fn(|cx| Poll::Ready(self.reader.poll_drain(cx)));
                matches!(drained.await, Poll::Ready(Ok(())))
            }
        };
        if is_whole && !close {
            self.out.rest(KEPT_OUTPUT_BYTES);
            return Ok(true);
        }
        match is_whole && !self.reader.has_rest() {
            true => self.finish().await?,
            false => self.linger().await?,
        }
        Ok(false)
    }

    /// Ends the connection, and reads on for a while: unread bytes would reset it, and the client would lose the answer.
    pub(super) async fn linger(&mut self) -> io::Result<()> {
        self.finish().await?;
        let mut limit = MAX_LINGER_BYTES;
        let discarding = poll_fn(|cx| self.reader.poll_discard(cx, &mut limit));
        // After that, the client has had its time.
        let _ = timeout(LINGER_TIMEOUT, discarding).await;
        Ok(())
    }

    fn poll_send<B>(
        &mut self,
        cx: &mut Context<'_>,
        sending: &mut Sending<B>,
    ) -> Poll<io::Result<()>>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        for _ in 0..WRITES_PER_POLL {
            // Without the reader's lock: the response may echo the request's own body.
            let filled = sending.fill(cx, &mut self.out).map_err(io::Error::other)?;
            let is_last =
                filled == Filled::Done && matches!(self.policy, ServerPolicy::Clients(..));
            if is_last && self.reader.poll_write_last(cx, &mut self.out)?.is_ready() {
                return Poll::Ready(Ok(()));
            }
            match (self.reader.poll_write(cx, &mut self.out)?, filled) {
                (Poll::Ready(_), Filled::Done) => return Poll::Ready(Ok(())),
                (Poll::Ready(PeerState::Left), _) => {
                    return Poll::Ready(Err(HttpError::Cut.into()));
                }
                (Poll::Pending, _) | (_, Filled::Waiting) => return Poll::Pending,
                (Poll::Ready(PeerState::There), Filled::Full) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes the head that ends HTTP on this stream, and hands the stream over.
    async fn switch(&mut self, upgrade: oneshot::Sender<Upgraded>) -> io::Result<bool> {
        let Some((mut transport, read)) = self.reader.take() else {
            return Ok(false);
        };
        if !read.is_empty() && matches!(self.policy, ServerPolicy::Peer) {
            return Err(HttpError::Malformed(UNEXPECTED_DATA).into());
        }
        poll_fn(|cx| transport.poll_write(cx, &mut self.out)).await?;
        // Without a receiver, this resets the stream.
        drop(upgrade.send(transport.into_upgraded(read)));
        Ok(false)
    }
}
