//! A fake hub: it accepts, enrols and renews agents, and does nothing else.

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
    config::CONFIG_PATH,
    enroll::{ENROLL_PATH, EnrollRequest, Issued, RENEW_PATH, RenewRequest},
    facts::{FACTS_PATH, Report, ReportReceipt},
    headers::CHANGED_PATH,
    hello::{HELLO_PATH, Hello, HelloResponse},
    upgrade::{UPGRADE_PATH, UpgradeReport},
};
use fairlead_certs::{
    AgentIdentity, Authority, agent_identity, csr_fingerprint, front_server, session_server,
};
use fairlead_dialer::{
    Arrival, CloseReason, Limits, Resumable, Session, accept,
    accept::{CONNECT_PATH, upgrade_response},
    accept_resumable,
};
use fairlead_exchange::{Body, Exchanges, serve};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use time::OffsetDateTime;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    body::text,
    relay::{Relay, RelayControl},
    wait::soon,
};

/// The hub's end of a session of an enrolled agent.
pub struct ConnectedAgent {
    /// Its session.
    pub session: Session,
    /// Requests over the session.
    pub exchanges: Exchanges,
    /// Identity in its certificate.
    pub identity: AgentIdentity,
}

/// Behaviour of a fake hub, and a record of its agents' requests.
#[derive(Default)]
pub struct HubScript {
    /// Keys of enrolment requests, in order.
    pub enrolment_keys: Mutex<Vec<[u8; 32]>>,
    /// Keys of renewal requests, in order.
    pub renewal_keys: Mutex<Vec<[u8; 32]>>,
    /// Number of enrolments with a lost answer.
    pub lost_answers: AtomicUsize,
    /// Revision and document of the agents' configuration.
    pub configuration: Mutex<Option<(String, serde_json::Value)>>,
    /// Revisions that agents knew at their requests for the configuration, in order.
    pub known_revisions: watch::Sender<Vec<Option<String>>>,
    /// Reports of facts, in order.
    pub reports: Mutex<Vec<Report>>,
    /// Answers to the next reports. Without one, a report's own number is acknowledged.
    pub report_answers: Mutex<VecDeque<ReportAnswer>>,
    /// Number of reports that the answer to a probe has changed.
    pub changes: watch::Sender<usize>,
    /// Reports of upgrades, in order.
    pub upgrades: Mutex<Vec<UpgradeReport>>,
    /// Number of granted renewals.
    pub renewals: AtomicUsize,
    /// Number of renewals that fail temporarily.
    pub failing_renewals: AtomicUsize,
    /// Renewals are rejected permanently.
    pub renewal_expired: Mutex<bool>,
    /// Code with which enrolments are rejected.
    pub enrolment_error: Mutex<Option<Code>>,
    /// Hellos of agents, in order.
    pub hellos: Mutex<Vec<Hello>>,
    /// Address by which the hub lists itself.
    pub listed_as: Mutex<Option<HubUrl>>,
    /// The next hello disconnects the hub before it is answered.
    pub disconnect_at_hello: AtomicBool,
    /// Code with which hellos are rejected.
    pub hello_error: Mutex<Option<Code>>,
    /// Age of certificates when they are issued.
    pub certificate_age: Mutex<Duration>,
    /// Faults of its connections.
    pub relay: Arc<RelayControl>,
    /// Sessions that wait for their agents. Without it, sessions end with their connections.
    pub resumable: Mutex<Option<Resumable>>,
}

/// Time after its end during which an agent's certificate is accepted.
const RENEW_GRACE: Duration = Duration::from_secs(3600);

/// Answer to a report of facts.
pub enum ReportAnswer {
    /// Accepted, with this base for the next report.
    Etag(Option<&'static str>),
    /// Rejected with this code.
    Refused(Code),
}

/// A fake hub on loopback, behind a relay that can break connections.
pub struct FakeHub {
    /// CA of its agents and of its own certificates.
    pub authority: Arc<Authority>,
    /// Its behaviour and its record.
    pub script: Arc<HubScript>,
    relay: Relay,
    inside: SocketAddr,
    agents: tokio::sync::Mutex<mpsc::Receiver<ConnectedAgent>>,
    task: JoinHandle<()>,
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeHub {
    /// Starts a hub with the CA in `dir`.
    ///
    /// # Panics
    /// The CA cannot be created.
    pub async fn start(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let authority = Arc::new(Authority::open_or_create(dir).unwrap());
        let script = Arc::new(HubScript::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inside = listener.local_addr().unwrap();
        let (sender, agents) = mpsc::channel(16);
        FakeHub {
            relay: Relay::controlled_by(script.relay.clone(), inside).await,
            task: tokio::spawn(listen(listener, authority.clone(), script.clone(), sender)),
            authority,
            script,
            inside,
            agents: tokio::sync::Mutex::new(agents),
        }
    }

    /// URL for agents.
    pub fn url(&self) -> HubUrl {
        self.relay.url()
    }

    /// Opens another address of the hub.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn another_address(&self) -> Relay {
        Relay::to(self.inside).await
    }

    /// Waits for the next session of an enrolled agent.
    ///
    /// # Panics
    /// None opens one in time.
    pub async fn next(&self) -> ConnectedAgent {
        soon(self.agents.lock().await.recv()).await.unwrap()
    }

    /// Makes the hub unreachable and resets its connections.
    pub fn disconnect(&self) {
        self.relay.control.disconnect();
    }

    /// Makes the hub reachable again.
    pub fn reconnect(&self) {
        self.relay.control.reconnect();
    }

    /// Resets every connection.
    pub fn cut(&self) {
        self.relay.control.cut();
    }
}

async fn listen(
    listener: TcpListener,
    authority: Arc<Authority>,
    script: Arc<HubScript>,
    agents: mpsc::Sender<ConnectedAgent>,
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
        let (script, agents) = (script.clone(), agents.clone());
        tokio::spawn(async move {
            let Ok(tls) = front.accept(tcp).await else {
                return;
            };
            let service = service_fn(move |mut request: Request<Incoming>| {
                assert_eq!(request.uri().path(), CONNECT_PATH);
                let head = upgrade_response(&request).unwrap();
                let upgrade = hyper::upgrade::on(&mut request);
                let (authority, script, agents) =
                    (authority.clone(), script.clone(), agents.clone());
                tokio::spawn(async move {
                    let Ok(io) = upgrade.await else { return };
                    Box::pin(agent(TokioIo::new(io), authority, script, agents)).await;
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
    script: Arc<HubScript>,
    agents: mpsc::Sender<ConnectedAgent>,
) {
    let inner = authority.issue_hub(OffsetDateTime::now_utc()).unwrap();
    let inner = session_server(&inner, authority.certificate_pem(), RENEW_GRACE).unwrap();
    let resumable = script.resumable.lock().unwrap().clone();
    let arrived = match resumable {
        Some(known) => {
            let limits = Limits::default();
            accept_resumable(io, inner, limits, &known, std::future::pending()).await
        }
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
            .send(ConnectedAgent {
                session: accepted.session,
                exchanges,
                identity,
            })
            .await;
    }
    while let Some(stream) = session.accept().await {
        let (authority, script, session) = (authority.clone(), script.clone(), session.clone());
        tokio::spawn(serve(stream, move |request| {
            Box::pin(issue(
                request,
                authority.clone(),
                script.clone(),
                session.clone(),
            ))
        }));
    }
}

async fn issue(
    request: Request<Body>,
    authority: Arc<Authority>,
    script: Arc<HubScript>,
    session: Session,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if let Some(answer) = without_body(&request, &script) {
        return answer;
    }
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    let csr = match path.as_str() {
        ENROLL_PATH => {
            let asked: EnrollRequest = serde_json::from_slice(&bytes).unwrap();
            script
                .enrolment_keys
                .lock()
                .unwrap()
                .push(csr_fingerprint(&asked.csr).unwrap());
            if let Some(code) = *script.enrolment_error.lock().unwrap() {
                return refusal(code);
            }
            if script
                .lost_answers
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
            script.hellos.lock().unwrap().push(hello);
            if script.disconnect_at_hello.swap(false, SeqCst) {
                script.relay.disconnect();
            }
            return match *script.hello_error.lock().unwrap() {
                Some(code) => refusal(code),
                None => {
                    let hub = script.listed_as.lock().unwrap().clone();
                    let greeted = serde_json::to_string(&HelloResponse { hub }).unwrap();
                    Response::new(text(&greeted))
                }
            };
        }
        FACTS_PATH => {
            let report: Report = serde_json::from_slice(&bytes).unwrap();
            let number = report.sequence.to_string();
            script.reports.lock().unwrap().push(report);
            let etag = match script.report_answers.lock().unwrap().pop_front() {
                Some(ReportAnswer::Refused(code)) => return refusal(code),
                Some(ReportAnswer::Etag(etag)) => etag.map(str::to_owned),
                None => Some(number),
            };
            let received = serde_json::to_string(&ReportReceipt { etag }).unwrap();
            return Response::new(text(&received));
        }
        UPGRADE_PATH => {
            let report: UpgradeReport = serde_json::from_slice(&bytes).unwrap();
            script.upgrades.lock().unwrap().push(report);
            return Response::new(text("{}"));
        }
        RENEW_PATH => match renewal(&bytes, &script) {
            Ok(csr) => csr,
            Err(code) => return refusal(code),
        },
        other => panic!("{other}"),
    };
    let now = OffsetDateTime::now_utc() - *script.certificate_age.lock().unwrap();
    let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-demo".parse().unwrap());
    let signed = authority.sign_agent(&csr, &tenant, &cluster, now).unwrap();
    let issued = Issued {
        cluster,
        tenant,
        certificate: signed.certificate_pem,
        ca: authority.certificate_pem().to_owned(),
        issuer: Some(authority.pin()),
        not_before: signed.not_before,
        not_after: signed.not_after,
    };
    Response::new(text(&serde_json::to_string(&issued).unwrap()))
}

/// CSR of a renewal, if the renewal is granted.
fn renewal(body: &[u8], script: &HubScript) -> Result<String, Code> {
    let asked: RenewRequest = serde_json::from_slice(body).unwrap();
    let key = csr_fingerprint(&asked.csr).unwrap();
    script.renewal_keys.lock().unwrap().push(key);
    if *script.renewal_expired.lock().unwrap() {
        return Err(Code::CertificateExpired);
    }
    let fewer = |left: usize| left.checked_sub(1);
    if script
        .failing_renewals
        .fetch_update(SeqCst, SeqCst, fewer)
        .is_ok()
    {
        return Err(Code::Store);
    }
    *script.certificate_age.lock().unwrap() = Duration::ZERO;
    let mut refused = script.hello_error.lock().unwrap();
    refused.take_if(|code| *code == Code::CertificateExpired);
    script.renewals.fetch_add(1, SeqCst);
    Ok(asked.csr)
}

/// Answer to a request without a body.
fn without_body(request: &Request<Body>, script: &HubScript) -> Option<Response<Body>> {
    match request.uri().path() {
        CONFIG_PATH => Some(configuration(request, script)),
        CHANGED_PATH => Some(changed(script)),
        _ => None,
    }
}

fn changed(script: &HubScript) -> Response<Body> {
    script.changes.send_modify(|count| *count += 1);
    let mut response = Response::new(text(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn configuration(request: &Request<Body>, script: &HubScript) -> Response<Body> {
    let Some((revision, document)) = script.configuration.lock().unwrap().clone() else {
        return refusal(Code::NoSuchRoute);
    };
    let known = request.headers().get("if-none-match");
    let known = known.map(|tag| tag.to_str().unwrap().trim_matches('"').to_owned());
    let is_current = known.as_ref() == Some(&revision);
    script.known_revisions.send_modify(|all| all.push(known));
    let tag = format!("\"{revision}\"");
    let (status, body) = match is_current {
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
