//! Request reader: the reading half of a served stream, as the serving loop has it. A request without a body
//! takes no lock.

use std::{
    io,
    sync::{Arc, MutexGuard},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairlead_dialer::sync::lock;

use crate::{
    error::{HttpError, malformed},
    framing::BodyDecoder,
    incoming::Incoming,
    outgoing::Outgoing,
    policy::HeadForm,
    shared_reader::{
        Expects, LentReader, PeerState, ReaderState, SharedReader, UNEXPECTED_DATA, UploadBody,
    },
    transport::Transport,
};

/// The reading half, as the serving loop has it.
pub(crate) struct RequestReader<W> {
    /// `None` while a body shares it, and after the transport was handed over. In a box, because it moves between both.
    own: Option<Box<ReaderState<W>>>,
    /// Made for the first request with a body.
    shared: Option<Arc<SharedReader<W>>>,
}

/// Access to the reader, wherever it is.
enum Access<'a, W> {
    Own(&'a mut ReaderState<W>),
    Lent(MutexGuard<'a, LentReader<W>>, &'a SharedReader<W>),
}

impl<W> Access<'_, W> {
    /// The reader, and its sharing.
    ///
    /// # Errors
    ///
    /// If the transport was handed over.
    fn parts(&mut self) -> Result<(&mut ReaderState<W>, Option<&SharedReader<W>>), HttpError> {
        match self {
            Access::Own(state) => Ok((state, None)),
            Access::Lent(lent, shared) => {
                let state = lent.state.as_mut().ok_or(HttpError::Cut)?;
                Ok((state, Some(shared)))
            }
        }
    }
}

impl<W> RequestReader<W> {
    pub(crate) fn new(transport: W, form: HeadForm) -> Self {
        RequestReader {
            own: Some(Box::new(ReaderState {
                transport,
                incoming: Incoming::new(form),
                decoder: BodyDecoder::Ended,
                expects_continue: Expects::Nothing,
                is_of_client: form.is_of_client,
            })),
            shared: None,
        }
    }

    fn access(&mut self) -> Result<Access<'_, W>, HttpError> {
        match (&mut self.own, &self.shared) {
            (Some(state), _) => Ok(Access::Own(state)),
            (None, Some(shared)) => Ok(Access::Lent(lock(&shared.lent), shared)),
            (None, None) => Err(HttpError::Cut),
        }
    }

    /// Ends the body of the request.
    fn end_body(&mut self) {
        if self.own.is_none() {
            self.own = self.shared.as_ref().and_then(|it| it.reclaim());
        }
    }

    /// The reader without a body.
    fn own(&mut self) -> Result<&mut ReaderState<W>, HttpError> {
        self.end_body();
        self.own.as_deref_mut().ok_or(HttpError::Cut)
    }

    /// Drops the transport, even if a body still refers to it.
    pub(crate) fn abandon(&mut self) {
        self.end_body();
        self.own = None;
    }
}

impl<W: Transport> RequestReader<W> {
    /// Head of the next request; `None` at the peer's end.
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, HttpError>> {
        let state = self.own()?;
        state.incoming.poll_head(&mut state.transport, cx)
    }

    /// True within an incomplete head.
    pub(crate) fn is_in_head(&mut self) -> bool {
        self.own().is_ok_and(|it| it.incoming.is_in_head())
    }

    /// True with input behind the request.
    pub(crate) fn has_rest(&mut self) -> bool {
        self.own().is_ok_and(|it| !it.incoming.is_empty())
    }

    /// Refuses bytes behind a head that wants the raw stream: its peer must wait for the answer.
    ///
    /// Called before the handler, which would connect to a target for a request that is refused.
    pub(crate) fn check_rest(&mut self) -> Result<(), HttpError> {
        match self.has_rest() {
            false => Ok(()),
            true => malformed(UNEXPECTED_DATA),
        }
    }

    /// Starts the body of a request; `None` for a request without a body.
    pub(crate) fn begin(
        &mut self,
        decoder: BodyDecoder,
        expects_continue: bool,
    ) -> Option<UploadBody<W>> {
        if decoder.is_ended() {
            return None;
        }
        let mut state = self.own.take()?;
        state.decoder = decoder;
        state.expects_continue = match expects_continue {
            true => Expects::Waits,
            false => Expects::Nothing,
        };
        let shared = self
            .shared
            .get_or_insert_with(|| Arc::new(SharedReader::new()));
        Some(shared.lend(state))
    }

    /// As [`ReaderState::poll_write`].
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Poll<Result<PeerState, HttpError>> {
        let mut access = self.access()?;
        let (state, shared) = access.parts()?;
        state.poll_write(shared, cx, out)
    }

    /// Writes the end of an answer, whatever its peer sends. Ready when everything was written.
    pub(crate) fn poll_write_last(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Poll<io::Result<()>> {
        let mut access = self.access()?;
        let (state, _) = access.parts()?;
        state.transport.poll_write(cx, out)
    }

    /// True once if `100 Continue` is to be sent now.
    pub(crate) fn takes_continue(&mut self, cx: &Context<'_>) -> bool {
        let Ok(mut access) = self.access() else {
            return false;
        };
        let Ok((state, Some(shared))) = access.parts() else {
            return false;
        };
        shared.wakers.serving.register(cx.waker());
        let due = state.expects_continue == Expects::Due;
        if due {
            state.expects_continue = Expects::Nothing;
        }
        due
    }

    /// Marks the start of the response: `100 Continue` is not sent any more.
    pub(crate) fn answers(&mut self) {
        if let Ok(mut access) = self.access()
            && let Ok((state, _)) = access.parts()
        {
            state.expects_continue = Expects::Nothing;
        }
    }

    /// True if the body of the request was refused.
    pub(crate) fn is_broken(&mut self) -> bool {
        let Ok(mut access) = self.access() else {
            return false;
        };
        let parts = access.parts();
        parts.is_ok_and(|(state, _)| matches!(state.decoder, BodyDecoder::Broken(_)))
    }

    /// Reads and drops at most `limit` bytes until the peer's end.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>, limit: &mut usize) -> Poll<()> {
        let Ok(state) = self.own() else {
            return Poll::Ready(());
        };
        loop {
            *limit = limit.saturating_sub(state.incoming.discard());
            if *limit == 0 {
                return Poll::Ready(());
            }
            let filled = state.incoming.poll_fill(&mut state.transport, cx);
            if !matches!(ready!(filled), Ok(true)) {
                return Poll::Ready(());
            }
        }
    }

    /// Reads and drops the rest of the request's body.
    pub(crate) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        let ReaderState {
            transport,
            incoming,
            decoder,
            ..
        } = self.own()?;
        while !decoder.is_ended() {
            ready!(incoming.poll_body(transport, decoder, cx))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.own() {
            Err(_) => Poll::Ready(Ok(())),
            Ok(state) => state.transport.poll_finish(cx),
        }
    }

    /// Takes the transport and the bytes after the request, for another protocol.
    pub(crate) fn take(&mut self) -> Option<(W, Bytes)> {
        self.end_body();
        let mut state = self.own.take()?;
        let rest = state.incoming.take_rest();
        Some((state.transport, rest))
    }
}
