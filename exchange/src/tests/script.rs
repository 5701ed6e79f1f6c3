//! A scripted transport that records its use, and both sides of an exchange on it.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use fairlead_dialer::sync::lock;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;

use crate::{
    Answer, Body, BodyError, Client, Outgoing, SendError, Transport, Upgraded, body::empty,
    server::serve_on,
};

/// Event after the last piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptEnd {
    Clean,
    Reset,
    /// Nothing, forever.
    Silence,
}

#[derive(Default)]
pub(super) struct Tape {
    pub(super) written: Vec<u8>,
    pub(super) finished: bool,
    pub(super) dropped: bool,
}

pub(super) struct Script {
    pieces: VecDeque<Bytes>,
    end: ScriptEnd,
    /// The first poll of each piece is pending.
    waits: bool,
    /// Bytes per write.
    width: usize,
    /// Heads to be written before the next piece, and the maximum.
    polite: Option<(usize, usize)>,
    tape: Arc<Mutex<Tape>>,
}

impl Script {
    pub(super) fn new(pieces: &[&[u8]], end: ScriptEnd) -> (Self, Arc<Mutex<Tape>>) {
        let tape = Arc::new(Mutex::new(Tape::default()));
        let pieces = pieces.iter().filter(|piece| !piece.is_empty());
        let script = Script {
            pieces: pieces.map(|piece| Bytes::copy_from_slice(piece)).collect(),
            end,
            waits: true,
            width: usize::MAX,
            polite: None,
            tape: tape.clone(),
        };
        (script, tape)
    }

    pub(super) fn narrow(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    pub(super) fn polite(mut self, first: usize, most: usize) -> Self {
        self.polite = Some((first, most));
        self
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        lock(&self.tape).dropped = true;
    }
}

impl Transport for Script {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if let Some((kind, most)) = &mut self.polite {
            let written = lock(&self.tape).written.clone();
            let answered = written.windows(4).filter(|part| part == b"\r\n\r\n");
            if answered.count() < *kind {
                return Poll::Pending;
            }
            *kind = (*kind + 1).min(*most);
        }
        self.waits = self.polite.is_none() && !self.waits;
        if self.waits && !self.pieces.is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match (self.pieces.pop_front(), self.end) {
            (Some(piece), _) => Poll::Ready(Ok(Some(piece))),
            (None, ScriptEnd::Clean) => Poll::Ready(Ok(None)),
            (None, ScriptEnd::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            (None, ScriptEnd::Silence) => Poll::Pending,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        let mut left = self.width;
        while left > 0 && !out.is_empty() {
            out.with_front(|front| {
                let taken = front.len().min(left);
                lock(&self.tape).written.extend_from_slice(&front[..taken]);
                front.advance(taken);
                left -= taken;
            });
        }
        if out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.tape).finished = true;
        Poll::Ready(Ok(()))
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        let nothing = tokio::io::join(tokio::io::empty(), tokio::io::sink());
        Upgraded::new(nothing, read)
    }
}

/// A message as received by the other side of the codec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadMessage {
    /// Method and target, or status.
    pub(super) line: String,
    pub(super) headers: HeaderMap,
    /// `None`: it broke off.
    pub(super) body: Option<(Bytes, Option<HeaderMap>)>,
}

impl ReadMessage {
    pub(super) async fn read<B>(line: String, headers: HeaderMap, body: B) -> Self
    where
        B: http_body::Body<Data = Bytes>,
    {
        let whole = body.collect().await.ok().map(|whole| {
            let trailers = whole.trailers().cloned();
            (whole.to_bytes(), trailers)
        });
        ReadMessage {
            line,
            headers,
            body: whole,
        }
    }
}

/// Serves a script with a handler that reads everything. Returns the messages and the outcome.
pub(super) async fn served(script: Script) -> (Vec<ReadMessage>, io::Result<()>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let outcome = serve_on(script, move |request: Request<Body>| {
        let notes = notes.clone();
        async move {
            let (parts, body) = request.into_parts();
            let line = format!("{} {}", parts.method, parts.uri);
            let message = ReadMessage::read(line, parts.headers, body).await;
            lock(&notes).push(message);
            http::Response::new(empty())
        }
    })
    .await;
    let seen = std::mem::take(&mut *lock(&seen));
    (seen, outcome)
}

pub(super) fn kind(method: Method) -> Request<Body> {
    let mut request = Request::new(empty());
    let target = match method {
        Method::CONNECT => "db.local:5432",
        _ => "/",
    };
    *request.uri_mut() = target.parse().unwrap();
    *request.method_mut() = method;
    request
}

/// Response of a script to a request, read to its end; and whether the transport was reusable.
pub(super) async fn answered(
    request: Request<Body>,
    script: Script,
) -> Result<(ReadMessage, bool), BodyError> {
    let tape = script.tape.clone();
    let client = Client::new(1);
    let sent = client.send(request, || async { Ok::<_, BodyError>(script) });
    let message = match sent.await {
        Ok(Answer::Response(response)) => {
            let (parts, body) = response.into_parts();
            let line = parts.status.as_str().to_owned();
            let mut message = ReadMessage {
                line,
                headers: parts.headers,
                body: None,
            };
            let whole = body.collect().await?;
            let trailers = whole.trailers().cloned();
            message.body = Some((whole.to_bytes(), trailers));
            message
        }
        Ok(Answer::Upgraded(head, raw)) => {
            assert!(head.status() == StatusCode::SWITCHING_PROTOCOLS || head.status().is_success());
            let mut read = Vec::new();
            let mut raw = raw;
            tokio::io::AsyncReadExt::read_to_end(&mut raw, &mut read).await?;
            ReadMessage {
                line: format!("{} raw", head.status().as_str()),
                headers: head.headers().clone(),
                body: Some((read.into(), None)),
            }
        }
        Err(SendError::Connect(error) | SendError::Broken(error) | SendError::Request(error)) => {
            return Err(error);
        }
    };
    let pooled = !lock(&tape).dropped;
    Ok((message, pooled))
}
