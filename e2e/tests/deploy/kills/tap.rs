//! Proxy between an agent and its API server. It counts the writes of each journal, and holds the agent at one of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use fairlead_apiserver::{AnswerBody, ApiCredentials, ApiServerConfig, BearerToken, Upstream};
use fairlead_e2e::{Cluster, eventually};
use fairlead_testkit::server::TestServer;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use serde_json::Value;

const SECRETS: &str = "/api/v1/namespaces/fairlead-delivery/secrets";
/// Credential of the agent at the proxy, which replaces it by the administrator's.
const OWN_TOKEN: &str = "own";
/// Longest wait for the head of an answer.
const HEAD_DEADLINE: Duration = Duration::from_secs(60);

/// Moment of a kill at a write of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    /// The API server has not received the write.
    Before,
    /// The API server has stored the write, and the agent has no answer.
    After,
}

/// Place to hold an agent at: the number of the write since the start of the phase, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldPoint {
    pub(super) write: usize,
    pub(super) moment: Moment,
}

/// Writes of the journals since the start of a phase, by the bundle's id.
#[derive(Default)]
struct Phase {
    writes: BTreeMap<String, Vec<String>>,
    points: BTreeMap<String, HoldPoint>,
    held: BTreeSet<String>,
}

/// A held request.
struct Held<'a> {
    shared: &'a Shared,
    bundle: &'a str,
}

impl<'a> Held<'a> {
    fn new(shared: &'a Shared, bundle: &'a str) -> Self {
        shared.phase().held.insert(bundle.to_owned());
        Held { shared, bundle }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.shared.phase().held.remove(self.bundle);
    }
}

/// The proxy. It stops when this is dropped.
pub(super) struct Tap {
    server: TestServer,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Upstream,
    phase: Mutex<Phase>,
}

impl Tap {
    pub(super) fn start(cluster: &Cluster) -> Self {
        let target = ApiServerConfig::Kubeconfig {
            path: cluster.kubeconfig(),
            context: None,
        };
        let shared = Arc::new(Shared {
            upstream: Upstream::new(ApiCredentials::new(&target)),
            phase: Mutex::default(),
        });
        let served = shared.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let shared = served.clone();
            async move { shared.answer(request).await }
        });
        Self {
            server: TestServer::https(service),
            shared,
        }
    }

    /// Writes a kubeconfig with the address of the proxy.
    pub(super) fn kubeconfig(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join("tap.kubeconfig");
        let (url, ca) = (self.server.url(), STANDARD.encode(self.server.ca_pem()));
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
             clusters: [{{name: a, cluster: {{server: '{url}', certificate-authority-data: {ca}}}}}], \
             users: [{{name: a, user: {{token: {OWN_TOKEN}}}}}]}}"
        );
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Starts a phase, with the places to hold the agent at.
    pub(super) fn begin(&self, points: BTreeMap<String, HoldPoint>) {
        *self.shared.phase() = Phase {
            points,
            ..Phase::default()
        };
    }

    /// Steps that the journal of a bundle has got in this phase.
    pub(super) fn steps(&self, bundle: &str) -> Vec<String> {
        let phase = self.shared.phase();
        phase.writes.get(bundle).cloned().unwrap_or_default()
    }

    /// Waits until the agent is held at every place.
    pub(super) async fn all_held(&self, deadline: Duration) -> anyhow::Result<()> {
        let held = eventually(deadline, "a hold of each bundle", async || {
            let phase = self.shared.phase();
            (phase.held.len() == phase.points.len()).then_some(())
        });
        held.await.with_context(|| {
            let phase = self.shared.phase();
            let (points, held, writes) = (&phase.points, &phase.held, &phase.writes);
            format!("points: {points:?}; held: {held:?}; writes: {writes:?}")
        })
    }
}

impl Shared {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> anyhow::Result<Response<AnswerBody>> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let point = journal_write(&head.method, head.uri.path(), &body)
            .and_then(|(bundle, step)| self.count(&bundle, step).map(|moment| (bundle, moment)));
        if let Some((bundle, Moment::Before)) = &point {
            self.hold(bundle).await;
        }
        let token = token(&mut head.headers)?;
        // The proxy has the whole body.
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::TRANSFER_ENCODING);
        let request = Request::from_parts(head, body);
        let sent = self
            .upstream
            .send_as(request, token.as_ref(), HEAD_DEADLINE);
        let answer = sent.await?;
        if let Some((bundle, Moment::After)) = &point {
            anyhow::ensure!(
                answer.status().is_success(),
                "journal of {bundle}: {answer:?}"
            );
            self.hold(bundle).await;
        }
        Ok(answer)
    }

    /// Counts a write of a journal. Returns the moment of its hold.
    fn count(&self, bundle: &str, step: String) -> Option<Moment> {
        let mut phase = self.phase();
        let writes = phase.writes.entry(bundle.to_owned()).or_default();
        writes.push(step);
        let number = writes.len();
        let point = phase.points.get(bundle)?;
        (point.write == number).then_some(point.moment)
    }

    /// Holds a request until its client is gone, which ends this future.
    async fn hold(&self, bundle: &str) {
        let _held = Held::new(self, bundle);
        std::future::pending().await
    }
}

/// Token of a run. None for the agent's own credential.
fn token(headers: &mut HeaderMap) -> anyhow::Result<Option<BearerToken>> {
    let Some(header) = headers.remove(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let token = header.to_str()?.trim_start_matches("Bearer ").to_owned();
    if token == OWN_TOKEN {
        return Ok(None);
    }
    Ok(Some(BearerToken::new(&token.into())?))
}

/// Bundle and step of a request that writes or deletes a journal.
fn journal_write(method: &Method, path: &str, body: &Bytes) -> Option<(String, String)> {
    let name = path.strip_prefix(SECRETS)?.trim_start_matches('/');
    if method == Method::DELETE {
        let bundle = name.strip_prefix("release-")?;
        return Some((bundle.to_owned(), "deletion".to_owned()));
    }
    if method != Method::POST && method != Method::PUT {
        return None;
    }
    let secret: Value = serde_json::from_slice(body).ok()?;
    let record = STANDARD.decode(secret["data"]["record"].as_str()?).ok()?;
    let record: Value = serde_json::from_slice(&record).ok()?;
    let step = format!(
        "accepted {}, applied {}, pending {}, helm {}, failure {}",
        record["accepted"]["generation"],
        record["applied"]["generation"],
        record["pending"]["step"],
        record["helm"]["step"]["work"],
        record["retry"]["failure"]["code"],
    );
    let bundle = secret["metadata"]["labels"]["fairlead/journal"].as_str()?;
    Some((bundle.to_owned(), step))
}
