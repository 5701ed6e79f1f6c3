//! Heads in lines compared with heads in maps: a proxy refuses the same requests and answers in both ways, and relays the same
//! bytes. The first two bytes select the filter; the rest is a request, a zero byte, and an answer.
#![no_main]

use std::{
    collections::VecDeque,
    future::Future,
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_exchange::{
    Answer, Body, BodyError, Client, ExchangeError, LineSet, Lines, LinesAnswer, NameBuffer,
    Outgoing, PreparedRequest, ReceivedRequest, RelayedResponse, Reply, RequestLines, Transport,
    Upgraded, WrittenLines, body, serve_lines, serve_on,
};
use http::{HeaderName, HeaderValue, Request, Response, header};
use libfuzzer_sys::fuzz_target;
use tokio::io::{empty, join, sink};

fuzz_target!(|bytes: &[u8]| {
    let [first, second, rest @ ..] = bytes else {
        return;
    };
    let filter = Filter([*first, *second]);
    let mut parts = rest.splitn(2, |&byte| byte == 0);
    let request = parts.next().unwrap_or_default();
    let answer = parts.next().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let maps = runtime.block_on(proxied(request, answer, |wire, server| async move {
        let handler = |request| async { in_map(filter, request, &server).await };
        format!("{:?}", serve_on(wire, handler).await)
    }));
    let lines = runtime.block_on(proxied(request, answer, |wire, server| async move {
        let handler = |request| async { (in_lines(filter, request, &server).await, ()) };
        format!("{:?}", serve_lines(wire, handler).await)
    }));
    assert_eq!(lines, maps);
});

/// Bytes to the server, bytes to the client in the order of their fields, and the end.
type Proxied = (Vec<u8>, Vec<Vec<u8>>, String);

/// Names that do not pass: those of one hop, and those with one of two last bytes.
#[derive(Clone, Copy)]
struct Filter([u8; 2]);

impl Filter {
    fn passes(self, name: &str) -> bool {
        let hop = [
            "te",
            "host",
            "expect",
            "upgrade",
            "connection",
            "keep-alive",
            "transfer-encoding",
        ];
        !hop.contains(&name)
            && !name
                .bytes()
                .last()
                .is_some_and(|last| self.0.contains(&last))
    }

    /// Lines that pass; `None` for a repeated name, which a map groups.
    fn lines(self, lines: &Lines) -> Option<LineSet> {
        let mut kept = LineSet::default();
        let mut buffer = NameBuffer::default();
        for line in lines.iter() {
            if self.passes(line.lower_name(&mut buffer)) {
                if lines.has_name(kept, &line) {
                    return None;
                }
                kept.insert(line.index);
            }
        }
        Some(kept)
    }
}

/// Received pieces, and all that was written.
struct Wire {
    pieces: VecDeque<Bytes>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Wire {
    fn new(sent: &[u8]) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let written = Arc::default();
        let wire = Wire {
            pieces: VecDeque::from([Bytes::copy_from_slice(sent)]),
            written: Arc::clone(&written),
        };
        (wire, written)
    }
}

impl Transport for Wire {
    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(self.pieces.pop_front()))
    }

    fn poll_write(&mut self, _cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        let mut written = self.written.lock().expect("no panic");
        while let Some(piece) = out.with_front(std::mem::take) {
            written.extend_from_slice(&piece);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        Upgraded::new(join(empty(), sink()), read)
    }
}

/// The server behind the proxy, for one request.
struct Server {
    client: Client<Wire>,
    wire: Mutex<Option<Wire>>,
}

impl Server {
    async fn connect(&self) -> Result<Wire, BodyError> {
        let wire = self.wire.lock().expect("no panic").take();
        wire.ok_or_else(|| "one request only".into())
    }
}

async fn proxied<F>(request: &[u8], answer: &[u8], serve: impl FnOnce(Wire, Server) -> F) -> Proxied
where
    F: Future<Output = String>,
{
    let (wire, to_client) = Wire::new(request);
    let (server, to_server) = Wire::new(answer);
    let server = Server {
        client: Client::new(1),
        wire: Mutex::new(Some(server)),
    };
    let end = serve(wire, server).await;
    let to_server = std::mem::take(&mut *to_server.lock().expect("no panic"));
    let to_client = std::mem::take(&mut *to_client.lock().expect("no panic"));
    (to_server, sorted_fields(&to_client), end)
}

/// Lines in the order of their names. A map moves a field to the place of a removed one.
fn sorted_fields(written: &[u8]) -> Vec<Vec<u8>> {
    let lines = written.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
    let mut lines: Vec<Vec<u8>> = lines.collect();
    let name = |line: &Vec<u8>| line.iter().take_while(|&&it| it != b':').copied().collect();
    lines.sort_by_key(|line| -> Vec<u8> { name(line) });
    lines
}

async fn in_map(filter: Filter, request: Request<Body>, server: &Server) -> Response<Body> {
    let sent = match to_server(filter, request) {
        Ok(request) => {
            server
                .client
                .send_prepared(request, || server.connect())
                .await
        }
        Err(error) => return failed(&error),
    };
    match sent {
        Ok(Answer::Response(answer)) => to_client(filter, answer),
        Ok(Answer::Upgraded(head, _)) => to_client(filter, head.map(|()| body::empty())),
        Err(error) => failed(&error),
    }
}

async fn in_lines(filter: Filter, request: ReceivedRequest, server: &Server) -> Reply {
    let prepared = match request {
        ReceivedRequest::Whole(request) => to_server(filter, request),
        ReceivedRequest::Lines(lines, body) => match filter.lines(lines.lines()) {
            Some(kept) => lines_to_server(&lines, kept, body),
            None => to_server(filter, lines.into_request(body)),
        },
    };
    let sent = match prepared {
        Ok(request) => {
            server
                .client
                .send_for_lines(request, || server.connect())
                .await
        }
        Err(error) => return Reply::Map(failed(&error)),
    };
    match sent {
        Ok(LinesAnswer::Lines(head, body)) => match filter.lines(head.lines()) {
            Some(kept) => {
                let relayed = RelayedResponse::new(head, kept);
                Reply::Lines(relayed.with_number("te", 7), body)
            }
            None => Reply::Map(to_client(filter, head.into_map(body))),
        },
        Ok(LinesAnswer::Map(Answer::Response(answer))) => Reply::Map(to_client(filter, answer)),
        Ok(LinesAnswer::Map(Answer::Upgraded(head, _))) => {
            Reply::Map(to_client(filter, head.map(|()| body::empty())))
        }
        Err(error) => Reply::Map(failed(&error)),
    }
}

fn to_server(filter: Filter, request: Request<Body>) -> Result<PreparedRequest, ExchangeError> {
    let host = HeaderValue::from_static("api");
    let kept = |name: &HeaderName| filter.passes(name.as_str());
    PreparedRequest::filtered(request, &[(&header::HOST, &host)], &kept)
}

fn lines_to_server(
    request: &RequestLines,
    kept: LineSet,
    body: Body,
) -> Result<PreparedRequest, ExchangeError> {
    let mut written = WrittenLines::begin(request, request.uri(), kept, 3);
    written.add("host", b"api");
    PreparedRequest::of_lines(written, body)
}

fn to_client(filter: Filter, mut answer: Response<Body>) -> Response<Body> {
    let names: Vec<HeaderName> = answer.headers().keys().cloned().collect();
    for name in names.iter().filter(|name| !filter.passes(name.as_str())) {
        answer.headers_mut().remove(name);
    }
    answer.headers_mut().insert("te", 7.into());
    answer
}

fn failed(error: &impl std::fmt::Debug) -> Response<Body> {
    Response::new(body::full(format!("{error:?}")))
}
