//! An API server that does what the path says, over TLS of its own CA.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use fairlead_dialer::{Body, BodyError};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::rig::{nothing, text};

/// A request as it arrived.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
}

impl Seen {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect()
    }
}

#[derive(Default)]
pub(crate) struct Story {
    pub(crate) seen: Mutex<Vec<Seen>>,
    pub(crate) unready: AtomicBool,
    /// Other tokens get 401.
    pub(crate) token: Mutex<Option<String>>,
    pub(crate) connections: AtomicUsize,
    /// Ends every connection that has nothing to do.
    pub(crate) hang_up: Notify,
    /// Watches that run.
    pub(crate) watches: AtomicUsize,
    /// What raw streams were told until their end.
    pub(crate) told: Mutex<Vec<String>>,
    /// The UID of its namespace `kube-system`; without one it cannot say.
    pub(crate) uid: Mutex<Option<String>>,
    /// One Secret, and the version it has.
    pub(crate) secret: Mutex<Option<serde_json::Value>>,
    /// Answers by path and query, in place of all else.
    pub(crate) answers: Mutex<HashMap<String, (u16, serde_json::Value)>>,
}

pub(crate) struct ApiServer {
    pub(crate) story: Arc<Story>,
    /// Tells every watch what to send next.
    pub(crate) events: watch::Sender<String>,
    ca_pem: String,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &ca)
            .unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let tls = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key.into())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let story = Arc::new(Story::default());
        *story.uid.lock().unwrap() = Some("uid-of-this-cluster".to_owned());
        let (events, heard) = watch::channel(String::new());
        let task = tokio::spawn(listen(
            listener,
            TlsAcceptor::from(Arc::new(tls)),
            story.clone(),
            heard,
        ));
        ApiServer {
            story,
            events,
            ca_pem: ca.pem(),
            address,
            task,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn ca_pem(&self) -> String {
        self.ca_pem.clone()
    }

    /// Takes no more connections; those there are go on.
    pub(crate) async fn stop_listening(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub(crate) fn last(&self, path: &str) -> Seen {
        let seen = self.story.seen.lock().unwrap();
        seen.iter()
            .rev()
            .find(|seen| seen.path == path)
            .unwrap()
            .clone()
    }

    pub(crate) fn saw(&self, path: &str) -> bool {
        self.story
            .seen
            .lock()
            .unwrap()
            .iter()
            .any(|seen| seen.path == path)
    }
}

async fn listen(
    listener: TcpListener,
    tls: TlsAcceptor,
    story: Arc<Story>,
    events: watch::Receiver<String>,
) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (tls, story, events) = (tls.clone(), story.clone(), events.clone());
        tokio::spawn(async move {
            let Ok(io) = tls.accept(tcp).await else {
                return;
            };
            story.connections.fetch_add(1, SeqCst);
            let served = story.clone();
            let service = service_fn(move |request| {
                let (story, events) = (served.clone(), events.clone());
                async move { Ok::<_, Infallible>(answer(request, story, events).await) }
            });
            let serving = http1::Builder::new()
                .serve_connection(TokioIo::new(io), service)
                .with_upgrades();
            let mut serving = pin!(serving);
            tokio::select! {
                _ = &mut serving => {}
                () = story.hang_up.notified() => {
                    serving.as_mut().graceful_shutdown();
                    let _ = serving.await;
                }
            }
            story.connections.fetch_sub(1, SeqCst);
        });
    }
}

async fn answer(
    mut request: Request<Incoming>,
    story: Arc<Story>,
    events: watch::Receiver<String>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    story.seen.lock().unwrap().push(Seen {
        path: path.clone(),
        headers: request.headers().clone(),
    });
    if let Some(early) = early(&request, &story) {
        return early;
    }
    match path.as_str() {
        path if path.starts_with("/apis/") => status(404, "{}"),
        "/readyz" if story.unready.load(SeqCst) => status(500, "[-]etcd failed"),
        "/unchanged" => {
            let mut response = status(304, "");
            response
                .headers_mut()
                .insert("etag", HeaderValue::from_static("\"1\""));
            response
        }
        "/early" => status(413, "too large"),
        "/teapot" => {
            let mut response = status(418, "short and stout");
            for (name, value) in [
                ("x-its-own", "1"),
                ("fairlead-code", "FL-1101"),
                ("connection", "x-hop"),
                ("x-hop", "1"),
            ] {
                response
                    .headers_mut()
                    .append(name, HeaderValue::from_static(value));
            }
            response
        }
        "/upload" => {
            let whole = request.into_body().collect().await.unwrap();
            let trailers = whole.trailers().map_or(0, HeaderMap::len);
            status(
                200,
                &format!("{} bytes, {trailers} trailers", whole.to_bytes().len()),
            )
        }
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("42"));
            let frames = [
                Ok::<_, BodyError>(Frame::data(Bytes::from("body"))),
                Ok(Frame::trailers(trailers)),
            ];
            let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
            response
                .headers_mut()
                .insert("trailer", HeaderValue::from_static("x-sum"));
            response
        }
        "/breaks" => {
            let half = stream::iter([Ok(Frame::data(Bytes::from("half")))]);
            let broken = stream::once(async move {
                let mut events = events;
                let _ = events.changed().await;
                Err(BodyError::from("broken"))
            });
            Response::new(StreamBody::new(half.chain(broken)).boxed_unsync())
        }
        "/watch" => Response::new(watching(story, events)),
        "/never" => std::future::pending().await,
        "/exec" => upgrade(&mut request, story),
        "/api/v1/namespaces/kube-system" => namespace(&story),
        path if path.starts_with("/api/v1/namespaces/fairlead-site/secrets") => {
            secret(request, &story).await
        }
        _ => status(200, "ok"),
    }
}

/// What comes before all else: who asks, and the answers of this test.
fn early(request: &Request<Incoming>, story: &Story) -> Option<Response<Body>> {
    let told = request.headers().get("authorization");
    let told = told.and_then(|value| value.to_str().ok());
    if let Some(token) = story.token.lock().unwrap().as_ref()
        && told != Some(&format!("Bearer {token}"))
    {
        return Some(status(401, "who are you?"));
    }
    let answers = story.answers.lock().unwrap();
    let (code, answer) = answers.get(&request.uri().to_string())?;
    Some(status(*code, &answer.to_string()))
}

fn namespace(story: &Story) -> Response<Body> {
    match story.uid.lock().unwrap().as_ref() {
        Some(uid) => status(200, &format!(r#"{{"metadata":{{"uid":"{uid}"}}}}"#)),
        None => status(503, ""),
    }
}

fn status(status: u16, body: &str) -> Response<Body> {
    Response::builder().status(status).body(text(body)).unwrap()
}

/// Sends each event as it comes, and is counted for as long as somebody listens.
fn watching(story: Arc<Story>, events: watch::Receiver<String>) -> Body {
    struct Counted(Arc<Story>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.watches.fetch_sub(1, SeqCst);
        }
    }
    story.watches.fetch_add(1, SeqCst);
    let counted = Counted(story);
    let frames = stream::unfold((counted, events), |(counted, mut events)| async move {
        events.changed().await.ok()?;
        let event = events.borrow_and_update().clone();
        (event != "end").then(|| {
            (
                Ok::<_, BodyError>(Frame::data(Bytes::from(event))),
                (counted, events),
            )
        })
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Closes as soon as all it has to say is in its socket, if it is asked to. Else it greets, ends its own direction if it is asked to, listens to the other's end, and repeats it if it still can.
fn upgrade(request: &mut Request<Incoming>, story: Arc<Story>) -> Response<Body> {
    let query: HashMap<_, _> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .map(|key| (key, ()))
        .collect();
    if query.contains_key("refuse") {
        return status(403, "no exec for you");
    }
    let speaks_first = query.contains_key("ends-first");
    let closes = query.contains_key("closes");
    let protocol = request.headers().get("upgrade").unwrap().clone();
    let on = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let mut io = TokioIo::new(on.await.unwrap());
        if closes {
            // Data on stream 1 of SPDY, more of it than is on its way at any time.
            io.write_all(b"\0\0\0\x01\0\x20\0\0").await.unwrap();
            io.write_all(&vec![7; 0x0020_0000]).await.unwrap();
            io.shutdown().await.unwrap();
            drop(io);
            story.told.lock().unwrap().push("closed".to_owned());
            return;
        }
        io.write_all(b"hello ").await.unwrap();
        if speaks_first {
            io.shutdown().await.unwrap();
        }
        let mut told = Vec::new();
        let read = io.read_to_end(&mut told).await;
        if !speaks_first && read.is_ok() {
            let _ = io.write_all(&told).await;
            let _ = io.shutdown().await;
        }
        let end = if read.is_ok() { "" } else { " (broken)" };
        story
            .told
            .lock()
            .unwrap()
            .push(format!("{}{end}", String::from_utf8(told).unwrap()));
    });
    let mut response = Response::new(nothing());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response
        .headers_mut()
        .insert("connection", HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert("upgrade", protocol);
    response
}

/// One Secret, with optimistic locking as the API server has it.
async fn secret(request: Request<Incoming>, story: &Story) -> Response<Body> {
    let method = request.method().clone();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut kept = story.secret.lock().unwrap();
    let version = |secret: &serde_json::Value| {
        secret["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or("0")
            .to_owned()
    };
    match (method.as_str(), kept.clone()) {
        ("GET", None) => status(404, "{}"),
        ("GET", Some(secret)) => status(200, &secret.to_string()),
        ("POST", Some(_)) => status(409, "{}"),
        ("PUT", None) => status(404, "{}"),
        (_, before) => {
            let mut secret: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let before = before.as_ref().map_or("0".to_owned(), version);
            if version(&secret) != before {
                return status(409, "{}");
            }
            let next = before.parse::<u64>().unwrap() + 1;
            secret["metadata"]["resourceVersion"] = next.to_string().into();
            *kept = Some(secret);
            status(200, "{}")
        }
    }
}
