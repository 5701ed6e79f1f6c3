//! An agent without a cluster: a real session, and the requests of a delivery. It applies nothing and reports
//! each bundle as ready.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use aws_lc_rs::rand;
use bytes::Bytes;
use fairlead_api::{
    BundleId, JoinString, RunId,
    delivery::{
        ARTIFACTS_PATH, ATTEMPT_HEADER, AgentRun, AttemptOutcome, DELIVERY_PATH,
        DESIRED_DELIVERY_HEADER, DeploymentReceipt, DeploymentReport, DeploymentReports,
        DeploymentState, DesiredState, ObjectCounts, REPORTS_PATH, RunKind, RunOrigin, RunOutcome,
        SPECS_PATH, Spec, run_path,
    },
    enroll::{ENROLL_PATH, EnrollRequest, Issued},
    hello::{HELLO_PATH, Hello, Instance, LinkIndex},
};
use fairlead_certs::{AgentKey, Leaf, session_client};
use fairlead_dialer::{CloseReason, DialTrace, Dialer, Limits, ProxyRules, Session};
use fairlead_exchange::{Answer, Body, Exchanges, body, serve};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use rustls::ClientConfig;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::{sync::watch, time::timeout};

use super::light_fleet::FleetShared;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// Limit of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Log of a run, as the agent writes one about twenty objects.
const LOG: &[u8] = &[b'.'; 1000];

pub(super) struct LightAgent {
    shared: Arc<FleetShared>,
    exchanges: Exchanges,
    /// ETag of the desired state, as the last probe named it.
    wanted: watch::Receiver<Option<String>>,
    /// ETag of the followed desired state.
    known: Option<String>,
    /// ETag of the acknowledged reports.
    base: Option<String>,
    applied: BTreeMap<BundleId, u64>,
    number: usize,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl LightAgent {
    /// Enrols and connects.
    pub(super) async fn join(
        number: usize,
        join: &JoinString,
        outer: Arc<ClientConfig>,
        shared: Arc<FleetShared>,
    ) -> anyhow::Result<Self> {
        let key = AgentKey::generate().map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let visitor = dial(join, &outer, None).await?;
        let exchanges = Exchanges::new(visitor.clone());
        let request = EnrollRequest {
            token: join.token.clone(),
            csr: key.csr().map_err(|error| anyhow::anyhow!("{error:?}"))?,
            agent_version: VERSION.to_owned(),
            cluster_uid: None,
        };
        let reply = send(&exchanges, json(Method::POST, ENROLL_PATH, &request)?).await?;
        visitor.close(CloseReason::Done);
        let issued: Issued = serde_json::from_slice(&good(&reply)?)?;
        let leaf = key.with_certificate(&issued.certificate);
        let leaf = leaf.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let session = dial(join, &outer, Some(&leaf)).await?;
        let exchanges = Exchanges::new(session.clone());
        let mut instance = [0; 16];
        rand::fill(&mut instance).context("no randomness")?;
        let hello = Hello {
            instance: Instance::from_bytes(instance),
            link: LinkIndex::try_from(0).context("a link has the index 0")?,
            cluster_uid: None,
            agent_version: VERSION.to_owned(),
        };
        good(&send(&exchanges, json(Method::POST, HELLO_PATH, &hello)?).await?)?;
        let (sender, wanted) = watch::channel(None);
        drop(tokio::spawn(serve_probes(session, sender)));
        Ok(LightAgent {
            shared,
            exchanges,
            wanted,
            known: None,
            base: None,
            applied: BTreeMap::new(),
            number,
        })
    }

    /// Delivers until the session ends.
    pub(super) async fn run(mut self, mut rounds: watch::Receiver<u32>) {
        let session = self.exchanges.session().clone();
        let mut backoff = BACKOFF_MIN;
        rounds.mark_unchanged();
        loop {
            let known = self.known.clone();
            let mut wanted = self.wanted.clone();
            let done = tokio::select! {
                is_open = is_new(&mut wanted, &known) => match is_open {
                    true => self.follow().await,
                    false => break,
                },
                it = rounds.changed() => match it {
                    Ok(()) => {
                        let round = *rounds.borrow_and_update();
                        self.report_change(round).await
                    }
                    Err(_) => return,
                },
                _ = session.closed() => break,
            };
            match done {
                Ok(()) => backoff = BACKOFF_MIN,
                Err(error) => {
                    self.shared.note_failure(&error);
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
        self.shared.lost.fetch_add(1, Relaxed);
    }

    /// Pulls the desired state, and delivers new generations.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut request = Request::get(DELIVERY_PATH);
        if let Some(known) = &self.known {
            request = request.header(header::IF_NONE_MATCH, format!("\"{known}\""));
        }
        let reply = send(&self.exchanges, request.body(body::empty())?).await?;
        if reply.status == StatusCode::NOT_MODIFIED {
            return Ok(());
        }
        let state: DesiredState = serde_json::from_slice(&good(&reply)?)?;
        let etag = reply.headers.get(header::ETAG).context("no ETag")?;
        let etag = etag.to_str()?.trim_matches('"').to_owned();
        let mut reports = Vec::new();
        for it in state.bundles {
            if self.applied.get(&it.bundle) == Some(&it.generation) {
                continue;
            }
            let spec = it.spec.context("no spec")?;
            let run = new_run()?;
            if self.shared.fetches.load(Relaxed) {
                self.execute(&it.bundle, it.generation, spec.as_str(), &run)
                    .await?;
            }
            reports.push(ready(it.bundle, it.generation, Some(run)));
        }
        let done: Vec<_> = reports
            .iter()
            .map(|it: &DeploymentReport| (it.bundle.clone(), it.generation))
            .collect();
        if !done.is_empty() {
            self.report(reports).await?;
            self.shared.ready.note(done.len());
        }
        self.applied.extend(done);
        self.known = Some(etag);
        Ok(())
    }

    /// Sends the requests of a run that an agent begins by itself. Content is not cached, as in a new cluster.
    async fn execute(
        &self,
        bundle: &BundleId,
        generation: u64,
        spec: &str,
        run: &RunId,
    ) -> anyhow::Result<()> {
        let spec = self.get(&format!("{SPECS_PATH}{spec}")).await?;
        let spec: Spec = serde_json::from_slice(&spec)?;
        ensure!(spec.bundle == *bundle, "the spec is of another bundle");
        self.shared.specs.note(1);
        let path = format!("{ARTIFACTS_PATH}{}", spec.artifact);
        let artifact = self.get(&path).await?;
        self.shared
            .artifact_bytes
            .fetch_add(artifact.len() as u64, Relaxed);
        let begun = AgentRun {
            bundle: bundle.clone(),
            kind: RunKind::Sync,
            origin: RunOrigin::Desired,
            generation,
            attempt: 1,
            started_at: OffsetDateTime::now_utc(),
        };
        let path = run_path(run);
        good(&send(&self.exchanges, json(Method::PUT, &path, &begun)?).await?)?;
        let last = LOG.len() - 1;
        let piece = Request::put(format!("{path}/log"))
            .header(ATTEMPT_HEADER, 1)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_RANGE, format!("bytes 0-{last}/*"))
            .body(body::full(LOG))?;
        good(&send(&self.exchanges, piece).await?)?;
        let outcome = RunOutcome {
            attempt: 1,
            outcome: AttemptOutcome::Succeeded,
            sentence: Some("20 objects applied".to_owned()),
            code: None,
            log_bytes: LOG.len() as u64,
            diff: None,
        };
        let result = json(Method::PUT, &format!("{path}/result"), &outcome)?;
        good(&send(&self.exchanges, result).await?)?;
        Ok(())
    }

    async fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        let request = Request::get(path).body(body::empty())?;
        good(&send(&self.exchanges, request).await?)
    }

    /// Reports that one deployment is not ready in odd rounds, and ready again in even ones.
    async fn report_change(&mut self, round: u32) -> anyhow::Result<()> {
        let at = self.number % self.applied.len().max(1);
        let Some((bundle, generation)) = self.applied.iter().nth(at) else {
            return Ok(());
        };
        let mut report = ready(bundle.clone(), *generation, Some(new_run()?));
        if round % 2 == 1 {
            report.state = DeploymentState::NotReady;
            report.reason = Some("Deployment shop/web has 1 of 2 replicas; wait for it".to_owned());
            report.code = Some("FL-6202".to_owned());
            report.objects.ready -= 1;
        }
        self.report(vec![report]).await?;
        self.shared.reported.note(1);
        Ok(())
    }

    async fn report(&mut self, reports: Vec<DeploymentReport>) -> anyhow::Result<()> {
        let reports = DeploymentReports {
            base: self.base.clone(),
            reports,
            gone: Vec::new(),
        };
        let request = json(Method::POST, REPORTS_PATH, &reports)?;
        let reply = good(&send(&self.exchanges, request).await?)?;
        let receipt: DeploymentReceipt = serde_json::from_slice(&reply)?;
        ensure!(receipt.etag.is_some(), "the hub has other reports");
        self.base = receipt.etag;
        Ok(())
    }
}

/// Completes when a probe has named another desired state; false once the session has ended.
async fn is_new(wanted: &mut watch::Receiver<Option<String>>, known: &Option<String>) -> bool {
    let named = wanted.wait_for(|it| it.is_some() && it != known).await;
    named.is_ok()
}

fn new_run() -> anyhow::Result<RunId> {
    let mut random = [0; 10];
    rand::fill(&mut random).context("no randomness")?;
    let millis = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    Ok(RunId::from_parts(millis.try_into()?, random))
}

fn ready(bundle: BundleId, generation: u64, run: Option<RunId>) -> DeploymentReport {
    DeploymentReport {
        bundle,
        state: DeploymentState::Ready,
        reason: None,
        code: None,
        generation,
        applied: generation,
        attempt: 1,
        next_try: None,
        retries_exhausted: false,
        objects: ObjectCounts {
            total: 20,
            ready: 20,
        },
        drift: Vec::new(),
        beside: Vec::new(),
        run,
    }
}

async fn dial(
    join: &JoinString,
    outer: &Arc<ClientConfig>,
    leaf: Option<&Leaf>,
) -> anyhow::Result<Session> {
    let inner = session_client(join.ca_pins, leaf).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let dialer = Dialer {
        outer: Arc::clone(outer),
        any_time: None,
        proxy: ProxyRules::default(),
        limits: Limits::default(),
        trace: DialTrace::default(),
    };
    let hub = join.hubs.first().context("the join string has no hub")?;
    match Box::pin(dialer.dial(hub, inner)).await {
        Ok(dialed) => Ok(dialed.session),
        Err(error) => bail!("dial {hub}: {}", error.cause),
    }
}

/// Answers probes as with a ready API server, and notes the desired state that they name.
async fn serve_probes(session: Session, wanted: watch::Sender<Option<String>>) {
    let wanted = Arc::new(wanted);
    while let Some(stream) = session.accept().await {
        let wanted = Arc::clone(&wanted);
        let handler = move |request: Request<Body>| {
            let desired = request.headers().get(DESIRED_DELIVERY_HEADER);
            let desired =
                desired.and_then(|it| Some(it.to_str().ok()?.trim_matches('"').to_owned()));
            wanted.send_if_modified(|it| {
                let is_new = desired.is_some() && *it != desired;
                if is_new {
                    it.clone_from(&desired);
                }
                is_new
            });
            async { Response::new(body::full("ok")) }
        };
        drop(tokio::spawn(serve(stream, handler)));
    }
}

fn json(method: Method, path: &str, document: &impl Serialize) -> anyhow::Result<Request<Body>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(ATTEMPT_HEADER, 1);
    Ok(request.body(body::full(serde_json::to_vec(document)?))?)
}

async fn send(exchanges: &Exchanges, mut request: Request<Body>) -> anyhow::Result<Reply> {
    let headers = request.headers_mut();
    headers.insert(header::HOST, header::HeaderValue::from_static("hub"));
    let line = format!("{} {}", request.method(), request.uri());
    let exchange = async {
        let Answer::Response(response) = exchanges.send(request).await? else {
            bail!("the hub upgraded a request");
        };
        let (head, body) = response.into_parts();
        let body = body::read(body, MAX_ANSWER_BYTES).await;
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body: body.map_err(|error| anyhow::anyhow!("{error}"))?,
        })
    };
    let reply = timeout(REQUEST_DEADLINE, exchange).await;
    reply.context("no answer in time")?.context(line)
}

fn good(reply: &Reply) -> anyhow::Result<Bytes> {
    let start = reply.body.get(..reply.body.len().min(300));
    ensure!(
        reply.status.is_success(),
        "{}: {}",
        reply.status,
        String::from_utf8_lossy(start.unwrap_or_default())
    );
    Ok(reply.body.clone())
}
