//! Requests in lines: received ones, and the heads that are written from them.

use std::{marker::PhantomData, mem::MaybeUninit};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, Uri, Version};

use super::{LineSet, LineSlots, Lines, MAX_LINES, reply::Reply};
use crate::{
    body::{Body, BodyError},
    error::HttpError,
    fields::field,
    framing::{self, BodyDecoder, BodyEncoder},
    head::{self, RequestHead, RequestKind},
    policy::HeadForm,
    upgrade::OnUpgrade,
};

/// Bytes of a written head beyond those of its parts: line ends, a renamed field, framing.
const EXTRA_BYTES: usize = 192;

/// Head of a request in lines. It is no CONNECT, and has no `Connection`, `Upgrade` or `Trailer`.
#[derive(Debug)]
pub struct RequestLines {
    method: Method,
    uri: Uri,
    length: Option<u64>,
    lines: Lines,
}

/// A request as received.
pub enum ReceivedRequest {
    /// With its fields in a map: an upgrade, a CONNECT, or any other head that is not read in lines.
    Whole(Request<Body>),
    /// With its fields in lines.
    Lines(RequestLines, Body),
}

/// Form in which a handler takes a request, and gives an answer with a body `B`.
pub(crate) trait RequestForm<B> {
    type Request;
    type Answer;
    /// Lives until the answer's body has ended.
    type Guard;
    /// The request without its body.
    type Head;

    /// Parses a complete head. `spare` is an empty map for its fields.
    fn read(
        head: Bytes,
        form: HeadForm,
        spare: HeaderMap,
    ) -> Result<RequestHead<Self::Head>, HttpError>;

    /// True for HTTP/1.0.
    fn is_old(head: &Self::Head) -> bool;

    fn whole(head: Self::Head, on_upgrade: Option<OnUpgrade>, body: Body) -> Self::Request;

    fn reply(answer: Self::Answer) -> (Reply<B>, Self::Guard);
}

/// Form with all fields in a map.
pub(crate) struct MapForm;

impl<B> RequestForm<B> for MapForm {
    type Request = Request<Body>;
    type Answer = Response<B>;
    type Guard = ();
    type Head = Request<()>;

    fn read(head: Bytes, form: HeadForm, spare: HeaderMap) -> Result<RequestHead, HttpError> {
        head::request(&head, form, spare)
    }

    fn is_old(head: &Request<()>) -> bool {
        head.version() == Version::HTTP_10
    }

    fn whole(mut head: Request<()>, on_upgrade: Option<OnUpgrade>, body: Body) -> Request<Body> {
        if let Some(on_upgrade) = on_upgrade {
            head.extensions_mut().insert(on_upgrade);
        }
        head.map(|()| body)
    }

    fn reply(answer: Response<B>) -> (Reply<B>, ()) {
        (Reply::Map(answer), ())
    }
}

/// Form with the fields in lines, if the head can be read so, and with a guard beside each answer.
pub(crate) struct LinesForm<G>(PhantomData<G>);

/// Head of a [`ReceivedRequest`].
pub(crate) enum ReceivedHead {
    Whole(Request<()>),
    Lines(RequestLines),
}

impl<B, G> RequestForm<B> for LinesForm<G> {
    type Request = ReceivedRequest;
    type Answer = (Reply<B>, G);
    type Guard = G;
    type Head = ReceivedHead;

    fn read(
        head: Bytes,
        form: HeadForm,
        spare: HeaderMap,
    ) -> Result<RequestHead<ReceivedHead>, HttpError> {
        match RequestLines::parse(&head) {
            Some(mut parsed) => {
                parsed.request.lines.head = head;
                Ok(parsed.map(ReceivedHead::Lines))
            }
            None => Ok(head::request(&head, form, spare)?.map(ReceivedHead::Whole)),
        }
    }

    /// Lines are always of HTTP/1.1.
    fn is_old(head: &ReceivedHead) -> bool {
        matches!(head, ReceivedHead::Whole(head) if head.version() == Version::HTTP_10)
    }

    fn whole(head: ReceivedHead, on_upgrade: Option<OnUpgrade>, body: Body) -> ReceivedRequest {
        match head {
            ReceivedHead::Whole(head) => {
                ReceivedRequest::Whole(<MapForm as RequestForm<B>>::whole(head, on_upgrade, body))
            }
            ReceivedHead::Lines(head) => ReceivedRequest::Lines(head, body),
        }
    }

    fn reply(answer: (Reply<B>, G)) -> (Reply<B>, G) {
        answer
    }
}

impl RequestLines {
    /// Method of the request.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Target of the request, in origin form.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Fields of the request.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The same request with its fields in a map.
    #[must_use]
    pub fn into_request(self, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.headers_mut() = self.lines.to_map();
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        request
    }

    /// Parses a complete head, which its lines still need; `None` for one that is not read in lines, or is refused.
    fn parse(head: &Bytes) -> Option<RequestHead<RequestLines>> {
        let mut slots: LineSlots = [const { MaybeUninit::uninit() }; MAX_LINES];
        let mut parsed = httparse::Request::new(&mut []);
        let parsing = parsed.parse_with_uninit_headers(head, &mut slots).ok()?;
        let (Some(method), Some(path), Some(1)) = (parsed.method, parsed.path, parsed.version)
        else {
            return None;
        };
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        if parsing.is_partial() || method == Method::CONNECT {
            return None;
        }
        let uri = head::target(&method, head.slice_ref(path.as_bytes())).ok()?;
        let (lines, framing) = Lines::of(head, parsed.headers)?;
        if framing.hosts != 1 {
            return None;
        }
        let body = BodyDecoder::of_request(framing.chunked, framing.length);
        Some(RequestHead {
            kind: RequestKind {
                head: method == Method::HEAD,
                ..RequestKind::default()
            },
            request: RequestLines {
                method,
                uri,
                length: framing.length,
                lines,
            },
            expects_continue: framing.expects_continue && !body.is_ended(),
            body,
            takes_trailers: framing.trailers,
            close: framing.close,
        })
    }
}

/// Head of a request that is being written from the lines of a received one. None of its fields is `Expect` or `Upgrade`.
pub struct WrittenLines<'a> {
    request: &'a RequestLines,
    kept: LineSet,
    out: BytesMut,
}

impl<'a> WrittenLines<'a> {
    /// Begins a head with the fields of `request` that are `kept`, and with another target in origin form.
    ///
    /// The added fields have at most `added_bytes`, and none of them is among the kept ones.
    #[must_use]
    pub fn begin(
        request: &'a RequestLines,
        target: &Uri,
        kept: LineSet,
        added_bytes: usize,
    ) -> Self {
        let target = target.path_and_query().map_or("/", |it| it.as_str());
        let bytes = request.lines.head_bytes() + target.len() + added_bytes + EXTRA_BYTES;
        let mut out = BytesMut::with_capacity(bytes);
        out.put_slice(request.method.as_str().as_bytes());
        out.put_slice(b" ");
        if !target.starts_with('/') {
            out.put_slice(b"/");
        }
        out.put_slice(target.as_bytes());
        out.put_slice(b" HTTP/1.1\r\n");
        WrittenLines { request, kept, out }
    }

    /// Adds a field of the sender. It must not frame the body.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        field(&mut self.out, name, value);
    }

    /// Adds the values of some received fields under another name.
    pub fn rename(&mut self, set: LineSet, name: &str) {
        for value in self.request.lines.values(set) {
            field(&mut self.out, name, value);
        }
    }

    pub(crate) fn kind(&self) -> RequestKind {
        RequestKind {
            head: self.request.method == Method::HEAD,
            ..RequestKind::default()
        }
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.request.method.is_safe()
    }

    /// Writes the kept fields, and the framing of the body.
    pub(crate) fn end(mut self, body: &Body) -> Result<(BytesMut, BodyEncoder), BodyError> {
        let encoder = framing::of_request_lines(self.request.length, body)?;
        (self.request.lines).end(self.kept, &encoder, &mut self.out);
        Ok((self.out, encoder))
    }
}
