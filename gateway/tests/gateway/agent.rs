//! A real agent's end of a session, in front of a fake API server that the request path controls.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::{
    ClusterId, Failure,
    config::DESIRED_REVISION_HEADER,
    headers::{DRAINING, PROBE_PATH},
    hello::{HELLO_PATH, Hello, Instance, LinkIndex},
};
use fairlead_certs::{AgentKey, LEAF_LIFETIME};
use fairlead_dialer::{
    Answer, Body, BodyError, DialError, Dialer, Exchanges, Limits, LinkState, OnUpgrade, Redialed,
    Session, dial::ProxyRules, serve,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use rustls::ClientConfig;
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::rig::{Rig, TEST_DEADLINE};

pub(crate) struct Agent {
    pub(crate) session: Session,
    dialer: Dialer,
    inner: Arc<ClientConfig>,
    pub(crate) api: Arc<Api>,
    pub(crate) exchanges: Exchanges,
    serving: JoinHandle<()>,
}

/// Next step of a body.
pub(crate) type Step = Result<Frame<Bytes>, BodyError>;

/// The API server behind the agent.
pub(crate) struct Api {
    /// Answer to a probe: a status, and code and cause of the agent's own failure.
    pub(crate) ready: Mutex<(u16, Option<(&'static str, &'static str)>)>,
    /// Probes are not answered at all.
    pub(crate) hangs: AtomicBool,
    /// Bodies for `/stream`, in order.
    streams: Mutex<Vec<mpsc::Receiver<Step>>>,
    /// Sends each request line on arrival.
    seen: mpsc::Sender<String>,
    pub(crate) requests: tokio::sync::Mutex<mpsc::Receiver<String>>,
    /// A probe has announced the drain of the hub.
    pub(crate) draining: AtomicBool,
    /// The configuration revision of the last probe.
    pub(crate) wanted: watch::Sender<Option<String>>,
}

/// Contents of an agent's hello.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    /// No hello.
    Nothing,
    Hello {
        instance: u8,
        link: u8,
        uid: Option<&'static str>,
    },
}

pub(crate) fn hello(instance: u8, link: u8, uid: Option<&'static str>) -> Says {
    Says::Hello {
        instance,
        link,
        uid,
    }
}

impl Agent {
    pub(crate) async fn of(rig: &Rig, cluster: &str) -> Self {
        Agent::saying(rig, cluster, somebody()).await
    }

    pub(crate) async fn saying(rig: &Rig, cluster: &str, says: Says) -> Self {
        Agent::by(rig, rig.address.port(), cluster, says).await
    }

    /// Connects through another loopback port that leads to the hub.
    pub(crate) async fn by(rig: &Rig, port: u16, cluster: &str, says: Says) -> Self {
        let now = OffsetDateTime::now_utc();
        Agent::issued_at(rig, port, Some(cluster), says, now).await
    }

    pub(crate) async fn without_identity(rig: &Rig) -> Self {
        let (port, now) = (rig.address.port(), OffsetDateTime::now_utc());
        Agent::issued_at(rig, port, None, Says::Nothing, now).await
    }

    /// With a certificate that expires this soon.
    pub(crate) async fn expiring(rig: &Rig, cluster: &str, left: Duration) -> Self {
        let issued = OffsetDateTime::now_utc() - LEAF_LIFETIME + left;
        Agent::issued_at(rig, rig.address.port(), Some(cluster), somebody(), issued).await
    }

    /// With a certificate that expired so long ago.
    pub(crate) async fn lapsed(rig: &Rig, cluster: &str, since: Duration, says: Says) -> Self {
        let issued = OffsetDateTime::now_utc() - LEAF_LIFETIME - since;
        Agent::issued_at(rig, rig.address.port(), Some(cluster), says, issued).await
    }

    async fn issued_at(
        rig: &Rig,
        port: u16,
        cluster: Option<&str>,
        says: Says,
        issued: OffsetDateTime,
    ) -> Self {
        let key = AgentKey::generate().unwrap();
        let leaf = cluster.map(|cluster| {
            let cluster: ClusterId = cluster.parse().unwrap();
            let tenant = "t-acme".parse().unwrap();
            let csr = key.csr().unwrap();
            let signed: Result<_, Failure> =
                rig.authority.sign_agent(&csr, &tenant, &cluster, issued);
            key.with_certificate(&signed.unwrap().certificate_pem)
                .unwrap()
        });
        let inner = fairlead_certs::session_client(rig.authority.pin(), leaf.as_ref()).unwrap();
        let dialer = Dialer {
            outer: rig.client_config("http/1.1"),
            any_time: None,
            proxy: ProxyRules::default(),
            limits: Limits {
                max_streams: 512,
                handshake: Duration::from_secs(10),
                ..Limits::default()
            },
        };
        let hub = format!("https://localhost:{port}");
        let dialed = Box::pin(dialer.dial(&hub.parse().unwrap(), inner.clone()))
            .await
            .unwrap();
        let session = dialed.session;
        let (seen, requests) = mpsc::channel(1024);
        let api = Arc::new(Api {
            ready: Mutex::new((200, None)),
            hangs: AtomicBool::new(false),
            streams: Mutex::default(),
            seen,
            requests: tokio::sync::Mutex::new(requests),
            draining: AtomicBool::new(false),
            wanted: watch::Sender::default(),
        });
        let serving = tokio::spawn(accept(session.clone(), Arc::clone(&api)));
        let agent = Agent {
            exchanges: Exchanges::new(session.clone()),
            session,
            dialer,
            inner,
            api,
            serving,
        };
        if let Says::Hello { .. } = says {
            assert_eq!(agent.say(says).await, 200);
        }
        agent
    }

    /// Waits until its session has no link any more.
    pub(crate) async fn loses_its_link(&self) {
        let mut link = self.session.link();
        let lost = link.wait_for(|link| *link != LinkState::Up);
        drop(timeout(TEST_DEADLINE, lost).await.unwrap().unwrap());
    }

    /// Reconnects to the hub, resuming the session or with a new one.
    pub(crate) async fn redial(&self, rig: &Rig) -> Result<Redialed, DialError> {
        let hub = format!("https://localhost:{}", rig.address.port());
        let (hub, inner) = (hub.parse().unwrap(), self.inner.clone());
        Box::pin(self.dialer.redial(&hub, inner, &self.session)).await
    }

    /// Reconnects to a hub for the old session only.
    pub(crate) async fn asks_for_its_session_at(&self, rig: &Rig) -> Result<Redialed, DialError> {
        let dialer = Dialer {
            outer: rig.client_config("http/1.1"),
            any_time: None,
            proxy: ProxyRules::default(),
            limits: Limits::default(),
        };
        let hub = format!("https://localhost:{}", rig.address.port());
        Box::pin(dialer.resume(&hub.parse().unwrap(), &self.session)).await
    }

    /// The status of the hub's answer.
    pub(crate) async fn say(&self, says: Says) -> u16 {
        let Says::Hello {
            instance,
            link,
            uid,
        } = says
        else {
            panic!("that is nothing");
        };
        let hello = Hello {
            instance: Instance::from_bytes([instance; 16]),
            link: LinkIndex::try_from(link).unwrap(),
            cluster_uid: uid.map(|uid| uid.parse().unwrap()),
            agent_version: "0.0.0-test".to_owned(),
        };
        let request = Request::post(HELLO_PATH)
            .header("host", "hub")
            .body(full(serde_json::to_vec(&hello).unwrap()))
            .unwrap();
        match self.exchanges.send(request).await.unwrap() {
            Answer::Response(response) => response.status().as_u16(),
            Answer::Upgraded(..) => panic!("upgraded"),
        }
    }

    /// Sends the next `/stream` answer.
    pub(crate) fn next_stream(&self) -> mpsc::Sender<Step> {
        let (sender, receiver) = mpsc::channel(16);
        self.api.streams.lock().unwrap().push(receiver);
        sender
    }

    /// Answers the hub's requests on new streams with bytes that are not HTTP.
    pub(crate) fn garble(&self) -> JoinHandle<()> {
        self.serving.abort();
        let session = self.session.clone();
        tokio::spawn(async move {
            while let Some(mut stream) = session.accept().await {
                let _ = stream.read_u8().await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\nno: http\n\n\r").await;
            }
        })
    }

    /// Waits for a request line with this start.
    pub(crate) async fn saw(&self, start: &str) -> String {
        let mut requests = self.api.requests.lock().await;
        loop {
            let request = requests.recv().await.unwrap();
            if request.starts_with(start) {
                return request;
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A hello with a new instance.
fn somebody() -> Says {
    static NUMBER: AtomicU8 = AtomicU8::new(100);
    hello(NUMBER.fetch_add(1, SeqCst), 0, None)
}

async fn accept(session: Session, api: Arc<Api>) {
    while let Some(stream) = session.accept().await {
        let api = Arc::clone(&api);
        tokio::spawn(serve(stream, move |request| {
            let api = Arc::clone(&api);
            async move { api.answer(request).await }
        }));
    }
}

pub(crate) fn data(bytes: &'static str) -> Step {
    Ok(Frame::data(Bytes::from_static(bytes.as_bytes())))
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn steps(mut steps: mpsc::Receiver<Step>) -> Body {
    let stream = futures_util::stream::poll_fn(move |cx| steps.poll_recv(cx));
    StreamBody::new(stream).boxed_unsync()
}

impl Api {
    async fn answer(&self, mut request: Request<Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let line = format!("{} {}", request.method(), request.uri());
        if path != PROBE_PATH {
            self.seen.send(line).await.unwrap();
        }
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        match path.as_str() {
            PROBE_PATH => {
                let draining = request.headers().contains_key(DRAINING);
                self.draining.fetch_or(draining, SeqCst);
                let wanted = request.headers().get(DESIRED_REVISION_HEADER);
                let wanted = wanted.map(|wanted| wanted.to_str().unwrap().to_owned());
                self.wanted.send_replace(wanted);
                if self.hangs.load(SeqCst) {
                    std::future::pending::<()>().await;
                }
                self.probe()
            }
            "/headers" => Response::new(full(told(request.headers()))),
            "/stream" => {
                let body = self.streams.lock().unwrap().remove(0);
                Response::new(steps(body))
            }
            "/collect" => {
                let body = request.into_body().collect().await;
                let read = body.map(|body| body.to_bytes().len());
                Response::new(full(format!("{read:?}")))
            }
            "/early" => early(request.into_body()),
            "/echo" => switch(upgrade),
            "/not-found" => with(404, &[("content-type", "text/x")], "no such thing"),
            "/unchanged" => with(304, &[("etag", "\"7\"")], ""),
            "/gzip" => with(200, &[("content-encoding", "gzip")], "\x1f not really"),
            "/liar" => with(
                200,
                &[("fairlead-user", "x"), ("fairlead-upstream-micros", "7")],
                "",
            ),
            "/no-upgrade" => with(403, &[("content-type", "application/json")], "{\"no\":1}"),
            "/own" => with(502, &[("fairlead-code", "FL-1502")], "connection refused"),
            "/foreign" => with(401, &[("fairlead-code", "FL-1101")], "log in again"),
            "/trailers" => trailers(),
            "/silent" => std::future::pending().await,
            other => with(200, &[], other.to_owned()),
        }
    }

    fn probe(&self) -> Response<Body> {
        let (status, own) = *self.ready.lock().unwrap();
        match own {
            Some((code, cause)) => with(status, &[("fairlead-code", code)], cause),
            None => with(status, &[], "ok"),
        }
    }
}

fn with(
    status: u16,
    headers: &[(&'static str, &'static str)],
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for &(name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn told(headers: &HeaderMap) -> String {
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines.concat()
}

/// Answers at once, and reports at the end how much it has read.
fn early(mut upload: Body) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        sender.send(data("early ")).await.unwrap();
        let mut total = 0;
        while let Some(Ok(frame)) = upload.frame().await {
            total += frame.data_ref().map_or(0, Bytes::len);
        }
        let end = Frame::data(Bytes::from(total.to_string()));
        sender.send(Ok(end)).await.unwrap();
    });
    Response::new(steps(receiver))
}

/// Upgrades to a protocol that echoes every byte, and sends `bye` after the other's end.
fn switch(upgrade: Option<OnUpgrade>) -> Response<Body> {
    tokio::spawn(async move {
        let mut io = upgrade.unwrap().await.unwrap();
        let mut buffer = [0; 4096];
        loop {
            let read = io.read(&mut buffer).await.unwrap();
            if read == 0 {
                break;
            }
            if buffer[..read].starts_with(b"break") {
                return;
            }
            io.write_all(&buffer[..read]).await.unwrap();
            io.flush().await.unwrap();
        }
        io.write_all(b"bye").await.unwrap();
        io.shutdown().await.unwrap();
    });
    let mut response = with(
        101,
        &[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")],
        "",
    );
    response.headers_mut().insert(
        "x-stream-protocol-version",
        HeaderValue::from_static("v4.channel.k8s.io"),
    );
    response
}

fn trailers() -> Response<Body> {
    let (sender, receiver) = mpsc::channel(4);
    let mut last = HeaderMap::new();
    last.insert("grpc-status", HeaderValue::from_static("0"));
    sender.try_send(data("body")).unwrap();
    sender.try_send(Ok(Frame::trailers(last))).unwrap();
    let mut response = Response::new(steps(receiver));
    response
        .headers_mut()
        .insert("trailer", HeaderValue::from_static("grpc-status"));
    response
}
