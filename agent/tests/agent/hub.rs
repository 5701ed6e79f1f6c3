//! A hub that takes agents, enrols and renews them, and nothing else.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use fairlead_api::{
    Code, Failure, HubUrl, Reason,
    config::{APPLIED_REVISION_HEADER, CONFIG_PATH},
    enroll::{ENROLL_PATH, EnrollRequest, Issued, RENEW_PATH, RenewRequest},
    facts::{FACTS_PATH, Report, ReportReceipt},
    hello::{HELLO_PATH, Hello},
};
use fairlead_certs::{
    AgentIdentity, Authority, agent_identity, csr_fingerprint, front_server, session_server,
};
use fairlead_dialer::{
    Arrival, Body, CloseReason, Exchanges, Limits, Resumable, Session, accept,
    accept::{CONNECT_PATH, upgrade_response},
    accept_resumable, serve,
};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    task::{AbortHandle, JoinHandle},
};
use tokio_rustls::TlsAcceptor;

use crate::rig::{soon, text};

/// A session of an agent with an identity.
pub(crate) struct Connected {
    pub(crate) session: Session,
    pub(crate) exchanges: Exchanges,
    pub(crate) identity: AgentIdentity,
}

#[derive(Default)]
pub(crate) struct Story {
    /// Keys that asked to enrol, in order.
    pub(crate) enrolled: Mutex<Vec<[u8; 32]>>,
    /// Keys that asked to renew.
    pub(crate) renewed: Mutex<Vec<[u8; 32]>>,
    /// How many answers to enrolments are lost on their way.
    pub(crate) lose: AtomicUsize,
    /// Revision and document of its configuration; `None`: the route is missing.
    pub(crate) configuration: Mutex<Option<(String, serde_json::Value)>>,
    /// By what agents said that they work when they asked for it, in order.
    pub(crate) applied: watch::Sender<Vec<Option<String>>>,
    /// Reports of facts, in order.
    pub(crate) reports: Mutex<Vec<Report>>,
    /// What the next reports are answered; after the last, the report's own number.
    pub(crate) receipts: Mutex<VecDeque<Receipt>>,
    /// How many renewals were granted.
    pub(crate) renewals: AtomicUsize,
    /// How many renewals are refused.
    pub(crate) refuse_renewals: AtomicUsize,
    /// Renewals are refused for good.
    pub(crate) refuse_late: Mutex<bool>,
    /// What enrolments are refused with.
    pub(crate) refuse: Mutex<Option<Code>>,
    /// What agents have said of themselves, in order.
    pub(crate) hellos: Mutex<Vec<Hello>>,
    /// The next hello finds it away, before it is answered.
    pub(crate) leave_at_hello: AtomicBool,
    /// What they are refused with when they do.
    pub(crate) refuse_hellos: Mutex<Option<Code>>,
    /// How old certificates are when they are issued.
    pub(crate) age: Mutex<Duration>,
    /// TCP connections taken.
    pub(crate) taken: AtomicUsize,
    /// Connections are taken, and broken at once.
    pub(crate) away: AtomicBool,
    /// What comes is lost, and the connections stay.
    pub(crate) deaf: AtomicBool,
    /// Sessions that wait for their agents. None: they end with their connections.
    pub(crate) resumable: Mutex<Option<Resumable>>,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Story {
    /// Nobody gets to it, and who is there loses it.
    fn leave(&self) {
        self.away.store(true, SeqCst);
        self.cut();
    }

    fn cut(&self) {
        let mut connections = self.connections.lock().unwrap();
        connections
            .drain(..)
            .for_each(|connection| connection.abort());
    }
}

/// For how long after its end an agent's certificate may be shown.
const LATE: Duration = Duration::from_secs(3600);

/// How a report of facts is answered.
pub(crate) enum Receipt {
    Etag(Option<&'static str>),
    Refused(Code),
}

pub(crate) struct Hub {
    pub(crate) authority: Arc<Authority>,
    pub(crate) story: Arc<Story>,
    address: SocketAddr,
    inside: SocketAddr,
    agents: tokio::sync::Mutex<mpsc::Receiver<Connected>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.cut();
    }
}

impl Hub {
    pub(crate) async fn start(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let authority = Arc::new(Authority::open_or_create(dir).unwrap());
        let story = Arc::new(Story::default());
        let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = outside.local_addr().unwrap();
        let (sender, agents) = mpsc::channel(16);
        let to = inside.local_addr().unwrap();
        let tasks = vec![
            tokio::spawn(listen(inside, authority.clone(), story.clone(), sender)),
            tokio::spawn(forward(outside, to, story.clone())),
        ];
        Hub {
            authority,
            story,
            address,
            inside: to,
            agents: tokio::sync::Mutex::new(agents),
            tasks,
        }
    }

    pub(crate) fn url(&self) -> HubUrl {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// Another address of it.
    pub(crate) async fn another_way(&self) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let story = Arc::new(Story::default());
        Way {
            address,
            task: tokio::spawn(forward(listener, self.inside, story.clone())),
            story,
        }
    }

    /// The next agent that comes as itself.
    pub(crate) async fn next(&self) -> Connected {
        soon(self.agents.lock().await.recv()).await.unwrap()
    }

    /// Nobody gets to it, and who is there loses it.
    pub(crate) fn leave(&self) {
        self.story.leave();
    }

    pub(crate) fn come_back(&self) {
        self.story.away.store(false, SeqCst);
    }

    /// Breaks every connection.
    pub(crate) fn cut(&self) {
        self.story.cut();
    }
}

/// An address of a hub.
pub(crate) struct Way {
    address: SocketAddr,
    story: Arc<Story>,
    task: JoinHandle<()>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Way {
    pub(crate) fn url(&self) -> HubUrl {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// TCP connections taken.
    pub(crate) fn taken(&self) -> usize {
        self.story.taken.load(SeqCst)
    }

    /// Takes no more connections, and breaks those that are there.
    pub(crate) fn stop(&self) {
        self.task.abort();
        self.story.cut();
    }
}

/// Stands before the hub, so that connections can be broken from outside.
async fn forward(listener: TcpListener, to: SocketAddr, story: Arc<Story>) {
    loop {
        let (mut from, _) = listener.accept().await.unwrap();
        story.taken.fetch_add(1, SeqCst);
        if story.away.load(SeqCst) {
            continue;
        }
        let heard = story.clone();
        let task = tokio::spawn(async move {
            let mut to = TcpStream::connect(to).await.unwrap();
            // Else a mark waits for 40 ms, as nothing between real ends does.
            from.set_nodelay(true).unwrap();
            to.set_nodelay(true).unwrap();
            let ((mut from, mut back), (mut answers, mut to)) = (from.split(), to.split());
            let ((), _) = tokio::join!(hear(&mut from, &mut to, &heard), async {
                let _ = copy(&mut answers, &mut back).await;
                back.shutdown().await
            });
        });
        story.connections.lock().unwrap().push(task.abort_handle());
    }
}

/// Passes on what is said, unless the hub is deaf.
async fn hear(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>, story: &Story) {
    let mut said = vec![0; 64 * 1024];
    while let Ok(size @ 1..) = from.read(&mut said).await {
        if !story.deaf.load(SeqCst) && to.write_all(&said[..size]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

async fn listen(
    listener: TcpListener,
    authority: Arc<Authority>,
    story: Arc<Story>,
    agents: mpsc::Sender<Connected>,
) {
    let now = OffsetDateTime::now_utc();
    let front = authority
        .issue_front(&["127.0.0.1".to_owned()], now)
        .unwrap();
    let front = TlsAcceptor::from(front_server(&front).unwrap());
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let (front, authority) = (front.clone(), authority.clone());
        let (story, agents) = (story.clone(), agents.clone());
        tokio::spawn(async move {
            let Ok(tls) = front.accept(tcp).await else {
                return;
            };
            let service = service_fn(move |mut request: Request<Incoming>| {
                assert_eq!(request.uri().path(), CONNECT_PATH);
                let head = upgrade_response(&request).unwrap();
                let upgrade = hyper::upgrade::on(&mut request);
                let (authority, story, agents) = (authority.clone(), story.clone(), agents.clone());
                tokio::spawn(async move {
                    let Ok(io) = upgrade.await else { return };
                    Box::pin(agent(TokioIo::new(io), authority, story, agents)).await;
                });
                async move {
                    Ok::<_, std::convert::Infallible>(head.map(|()| Empty::<bytes::Bytes>::new()))
                }
            });
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(tls), service)
                .with_upgrades()
                .await;
        });
    }
}

async fn agent(
    io: TokioIo<hyper::upgrade::Upgraded>,
    authority: Arc<Authority>,
    story: Arc<Story>,
    agents: mpsc::Sender<Connected>,
) {
    let inner = authority.issue_hub(OffsetDateTime::now_utc()).unwrap();
    let inner = session_server(&inner, authority.certificate_pem(), LATE).unwrap();
    let resumable = story.resumable.lock().unwrap().clone();
    let arrived = match resumable {
        Some(known) => accept_resumable(io, inner, Limits::default(), &known).await,
        None => accept(io, inner, Limits::default()).await.map(Arrival::New),
    };
    let Ok(Arrival::New(accepted)) = arrived else {
        return;
    };
    let session = accepted.session.clone();
    if !accepted.certificates.is_empty() {
        let identity = agent_identity(&accepted.certificates, authority.trust_domain()).unwrap();
        let exchanges = Exchanges::new(accepted.session.clone());
        let _ = agents
            .send(Connected {
                session: accepted.session,
                exchanges,
                identity,
            })
            .await;
    }
    while let Some(stream) = session.accept().await {
        let (authority, story, session) = (authority.clone(), story.clone(), session.clone());
        tokio::spawn(serve(stream, move |request| {
            Box::pin(issue(
                request,
                authority.clone(),
                story.clone(),
                session.clone(),
            ))
        }));
    }
}

async fn issue(
    request: Request<Body>,
    authority: Arc<Authority>,
    story: Arc<Story>,
    session: Session,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if path == CONFIG_PATH {
        return configuration(&request, &story);
    }
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    let csr = match path.as_str() {
        ENROLL_PATH => {
            let asked: EnrollRequest = serde_json::from_slice(&bytes).unwrap();
            story
                .enrolled
                .lock()
                .unwrap()
                .push(csr_fingerprint(&asked.csr).unwrap());
            if let Some(code) = *story.refuse.lock().unwrap() {
                return refusal(code);
            }
            if story
                .lose
                .fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1))
                .is_ok()
            {
                session.close(CloseReason::Draining);
                std::future::pending::<()>().await;
            }
            asked.csr
        }
        HELLO_PATH => {
            let hello: Hello = serde_json::from_slice(&bytes).unwrap();
            story.hellos.lock().unwrap().push(hello);
            if story.leave_at_hello.swap(false, SeqCst) {
                story.leave();
            }
            return match *story.refuse_hellos.lock().unwrap() {
                Some(code) => refusal(code),
                None => Response::new(text("{}")),
            };
        }
        FACTS_PATH => {
            let report: Report = serde_json::from_slice(&bytes).unwrap();
            let number = report.sequence.to_string();
            story.reports.lock().unwrap().push(report);
            let etag = match story.receipts.lock().unwrap().pop_front() {
                Some(Receipt::Refused(code)) => return refusal(code),
                Some(Receipt::Etag(etag)) => etag.map(str::to_owned),
                None => Some(number),
            };
            let received = serde_json::to_string(&ReportReceipt { etag }).unwrap();
            return Response::new(text(&received));
        }
        RENEW_PATH => match renewal(&bytes, &story) {
            Ok(csr) => csr,
            Err(code) => return refusal(code),
        },
        other => panic!("{other}"),
    };
    let now = OffsetDateTime::now_utc() - *story.age.lock().unwrap();
    let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-demo".parse().unwrap());
    let signed = authority.sign_agent(&csr, &tenant, &cluster, now).unwrap();
    let issued = Issued {
        cluster,
        tenant,
        certificate: signed.certificate_pem,
        ca: authority.certificate_pem().to_owned(),
        not_before: signed.not_before,
        not_after: signed.not_after,
    };
    Response::new(text(&serde_json::to_string(&issued).unwrap()))
}

/// Whose key is to be renewed, if it may be.
fn renewal(body: &[u8], story: &Story) -> Result<String, Code> {
    let asked: RenewRequest = serde_json::from_slice(body).unwrap();
    let key = csr_fingerprint(&asked.csr).unwrap();
    story.renewed.lock().unwrap().push(key);
    if *story.refuse_late.lock().unwrap() {
        return Err(Code::CertificateExpired);
    }
    let fewer = |left: usize| left.checked_sub(1);
    if story
        .refuse_renewals
        .fetch_update(SeqCst, SeqCst, fewer)
        .is_ok()
    {
        return Err(Code::Store);
    }
    *story.age.lock().unwrap() = Duration::ZERO;
    let mut refused = story.refuse_hellos.lock().unwrap();
    refused.take_if(|code| *code == Code::CertificateExpired);
    story.renewals.fetch_add(1, SeqCst);
    Ok(asked.csr)
}

fn configuration(request: &Request<Body>, story: &Story) -> Response<Body> {
    let Some((revision, document)) = story.configuration.lock().unwrap().clone() else {
        return refusal(Code::NoSuchRoute);
    };
    let said = |name: &str| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let applied = said(APPLIED_REVISION_HEADER);
    story.applied.send_modify(|all| all.push(applied));
    let tag = format!("\"{revision}\"");
    let (status, body) = match said("if-none-match").as_ref() == Some(&tag) {
        true => (304, String::new()),
        false => (200, document.to_string()),
    };
    let response = Response::builder().status(status).header("etag", tag);
    response.body(text(&body)).unwrap()
}

fn refusal(code: Code) -> Response<Body> {
    let body = Reason::from(&Failure::new(code)).to_json();
    Response::builder()
        .status(code.http_status())
        .body(text(&String::from_utf8(body).unwrap()))
        .unwrap()
}
