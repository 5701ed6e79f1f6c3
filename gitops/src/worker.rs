//! Follows the configuration and carries out one step after the other. It ends with its process only.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fairlead_api::{
    config::AgentConfig,
    error_chain,
    gitops::{AgentKeys, FoundState, FoundTool, GitOpsTool, KeyReceipt, KeyReport, SshKeyType},
};
use fairlead_apiserver::Upstream;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    adopt,
    decide::{Observed, Step, decide, sync_token},
    found, hosts,
    key::{KeyError, KeyPair, fingerprint},
    kube::{ObjectError, Objects},
    repairs,
    request::Desired,
    secrets::{Found, Key, Keyring, ToolSecret},
    status::{GitOpsStatus, Phase, Problem, shortened},
    sync::{self, Applications, Sync},
    tool::{ARGOCD_HOSTS, KEYRING, Layout},
    watch::{self as tool_watch, ToolWatch},
};

/// Interval of looks at a configuration that allows no key.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Interval of reads while a rotation waits for the Git server or the tool. It is short, because another request for
/// a sync hides the answer to that of the agent.
const ROTATION_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Pause after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Steps in a row. A rotation has eight.
const MAX_STEPS: usize = 16;

/// The hub did not answer, or refused the keys.
#[derive(Debug, thiserror::Error)]
#[error("keys not registered: {0}")]
pub struct RegistryUnreachable(pub String);

/// Record of the agent's deploy keys at the hub.
#[async_trait]
pub trait KeyRegistry: Send + std::marker::Sync {
    /// Replaces the keys, if they are as expected. Returns the keys of the record now.
    ///
    /// # Errors
    /// [`RegistryUnreachable`]
    async fn replace(&self, report: &KeyReport) -> Result<KeyReceipt, RegistryUnreachable>;
}

/// Reason for an unfinished round.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Registry(#[from] RegistryUnreachable),
    /// The steps do not come to an end; the next round goes on.
    #[error("the key has not settled after {MAX_STEPS} steps")]
    Unsettled,
}

/// Manager of one cluster's key.
pub struct Worker {
    objects: Objects,
    registry: Arc<dyn KeyRegistry>,
    configuration: watch::Receiver<Arc<AgentConfig>>,
    status: watch::Sender<Option<GitOpsStatus>>,
    /// Keys of the record after a report, until the next configuration has them.
    reported: Option<AgentKeys>,
    watch: ToolWatch,
    /// Host keys that the tool had at the last look. Others later are a change by somebody else.
    placed_hosts: Option<String>,
}

impl Worker {
    /// Worker over the agent's own client. `status` is `None` without a tool.
    #[must_use]
    pub fn new(
        upstream: Arc<Upstream>,
        registry: Arc<dyn KeyRegistry>,
        configuration: watch::Receiver<Arc<AgentConfig>>,
        status: watch::Sender<Option<GitOpsStatus>>,
    ) -> Self {
        Worker {
            objects: Objects::new(upstream),
            registry,
            configuration,
            status,
            reported: None,
            watch: ToolWatch::default(),
            placed_hosts: None,
        }
    }

    /// Works until the configuration has no sender.
    pub async fn run(mut self) {
        loop {
            let config = self.configuration.borrow_and_update().clone();
            self.reported = None;
            let Some(desired) = Desired::of(&config) else {
                self.status.send_replace(None);
                self.watch = ToolWatch::default();
                if self.configuration.changed().await.is_err() {
                    return;
                }
                continue;
            };
            if !self.follow(&config, desired).await {
                return;
            }
        }
    }

    /// Works for one configuration. False if there is no sender of another one.
    async fn follow(&mut self, config: &AgentConfig, desired: Result<Desired, Problem>) -> bool {
        loop {
            let (tool, key_type) = (config.gitops.tool, config.gitops.key_type);
            let (mut status, pause) = match &desired {
                Err(problem) => (stopped(tool, key_type, problem.clone()), POLL_INTERVAL),
                Ok(desired) => self.round(desired).await,
            };
            if let Some(layout) = Layout::of(tool) {
                self.watch.refresh(&self.objects, &layout).await;
            }
            status.health.clone_from(&self.watch.health);
            status.repairs.clone_from(&self.watch.repairs);
            self.publish(status);
            match timeout(pause, self.configuration.changed()).await {
                Err(_) => {}
                Ok(changed) => return changed.is_ok(),
            }
        }
    }

    /// One round with its status, and the pause behind it.
    async fn round(&mut self, desired: &Desired) -> (GitOpsStatus, Duration) {
        let (tool, key_type) = (desired.tool, desired.key_type);
        let Some(layout) = Layout::of(tool) else {
            let problem = Problem::ToolAbsent("the GitOps tool".to_owned());
            return (stopped(tool, key_type, problem), POLL_INTERVAL);
        };
        let found = match desired.install {
            true => found::find(&self.objects, tool).await.map(Some),
            false => Ok(None),
        };
        let found = match found {
            Ok(found) => self.adoption(&layout, desired, found).await,
            Err(error) => Err(error),
        };
        let (found, is_returning) = match found {
            Ok(found) => found,
            Err(error) => {
                let problem = problem_of(error.into());
                return (stopped(tool, key_type, problem), RETRY_INTERVAL);
            }
        };
        let (mut status, pause) = match found.as_ref().and_then(|it| left_alone(desired, it)) {
            // The next round finds whether the objects stay as returned.
            Some(problem) if is_returning => (stopped(tool, key_type, problem), RETRY_INTERVAL),
            Some(problem) => (stopped(tool, key_type, problem), POLL_INTERVAL),
            None => match self.steps(&layout, desired).await {
                Ok(status) if status.is_moving() => (status, ROTATION_POLL_INTERVAL),
                Ok(status) => (status, layout.poll_interval),
                Err(error) => (stopped(tool, key_type, problem_of(error)), RETRY_INTERVAL),
            },
        };
        status.found = found;
        (status, pause)
    }

    /// Saves what an adoption changes, or returns it. An undone adoption leaves the tool alone. True: a return is under
    /// way.
    async fn adoption(
        &self,
        layout: &Layout,
        desired: &Desired,
        mut found: Option<FoundTool>,
    ) -> Result<(Option<FoundTool>, bool), ObjectError> {
        let mut is_returning = false;
        let saved = adopt::read(&self.objects, layout).await?;
        let adopts = desired.install && desired.adopt;
        match (&mut found, &saved) {
            (Some(found), _) if adopts && found.state == FoundState::Foreign => {
                adopt::take_over(&self.objects, layout, saved.as_ref()).await?;
                found.saved = true;
            }
            (_, Some(saved)) if !adopts => {
                is_returning = !adopt::restore(&self.objects, layout, saved).await?;
            }
            _ => {}
        }
        Ok((found, is_returning))
    }

    async fn steps(
        &mut self,
        layout: &Layout,
        desired: &Desired,
    ) -> Result<GitOpsStatus, RoundError> {
        for _ in 0..MAX_STEPS {
            let desired = self.with_reported(desired);
            let observed = self.observe(layout, &desired).await?;
            if observed.known_hosts == desired.known_hosts {
                self.placed_hosts = Some(desired.known_hosts.clone());
            }
            let step = decide(layout, &desired, &observed);
            if step == Step::WriteHosts
                && let Some(place) = self.paused_by(layout, &observed.secret).await
            {
                let problem = Problem::RepairPaused(place);
                return Ok(status(&desired, &observed, Phase::Settled, Some(problem)));
            }
            match step {
                Step::Rest(phase, problem) => {
                    return Ok(status(&desired, &observed, phase, problem));
                }
                step => match self.perform(layout, &desired, &observed, step).await {
                    // Another agent of the cluster was faster.
                    Err(RoundError::Object(ObjectError::Conflict(_))) => {
                        sleep(ROTATION_POLL_INTERVAL).await;
                    }
                    other => other?,
                },
            }
        }
        Err(RoundError::Unsettled)
    }

    /// Desired state with the keys of the last report, which the configuration may not have yet.
    fn with_reported(&self, desired: &Desired) -> Desired {
        let mut desired = desired.clone();
        if let Some(reported) = self.reported.clone().filter(|it| *it != desired.keys) {
            desired.keys = reported;
            desired.registered = false;
        }
        desired
    }

    async fn observe(&self, layout: &Layout, desired: &Desired) -> Result<Observed, ObjectError> {
        let secret = self.objects.get(&layout.secret_path(layout.secret)).await?;
        let keyring = self.objects.get(&layout.secret_path(KEYRING)).await?;
        let secret = ToolSecret::read(layout, secret.as_ref());
        let own = match &secret {
            Found::Own(secret) => Some(secret),
            Found::Absent | Found::Foreign => None,
        };
        let (sync, known_hosts) = match layout.tool {
            GitOpsTool::Argocd => self.observe_argocd(layout, desired, own).await?,
            GitOpsTool::Flux | GitOpsTool::None => {
                let source = self.objects.get(layout.source).await?;
                let hosts = own.map_or_else(String::new, |own| own.known_hosts.clone());
                (Sync::of_flux(layout, source.as_ref()), hosts)
            }
        };
        Ok(Observed {
            secret,
            keyring: Keyring::read(keyring.as_ref()),
            sync,
            known_hosts,
        })
    }

    /// Sync of the Applications, and host keys of the repository in the ConfigMap of Argo CD.
    async fn observe_argocd(
        &self,
        layout: &Layout,
        desired: &Desired,
        secret: Option<&ToolSecret>,
    ) -> Result<(Sync, String), ObjectError> {
        let Some(secret) = secret else {
            return Ok((Sync::NoSource, String::new()));
        };
        let mut applications = Applications::new(&desired.url, secret.written.as_deref());
        let add = |application: &Value| applications.add(application);
        self.objects.for_each(layout.source, add).await?;
        let (text, _) = self.argocd_hosts().await?;
        let hosts = hosts::own(&text, &desired.known_hosts, &hosts::of_url(&desired.url));
        Ok((applications.sync(sync_token(&secret.key.public)), hosts))
    }

    /// ConfigMap with the host keys of Argo CD, and its text.
    async fn argocd_hosts(&self) -> Result<(String, Value), ObjectError> {
        let map = self.objects.get(ARGOCD_HOSTS).await?;
        let map = map.ok_or_else(|| ObjectError::Absent(ARGOCD_HOSTS.to_owned()))?;
        let text = map.pointer("/data/ssh_known_hosts").and_then(Value::as_str);
        Ok((text.unwrap_or_default().to_owned(), map))
    }

    async fn write_argocd_hosts(&self, desired: &Desired) -> Result<(), ObjectError> {
        let (text, mut map) = self.argocd_hosts().await?;
        let host = hosts::of_url(&desired.url);
        let replaced = hosts::replaced(&text, &desired.known_hosts, &host);
        if replaced == text {
            return Ok(());
        }
        if let Value::Object(fields) = &mut map {
            let data = fields.entry("data").or_insert_with(|| json!({}));
            if let Value::Object(data) = data {
                data.insert("ssh_known_hosts".to_owned(), replaced.into());
            }
        }
        self.objects.replace(ARGOCD_HOSTS, &map).await
    }

    async fn perform(
        &mut self,
        layout: &Layout,
        desired: &Desired,
        observed: &Observed,
        step: Step,
    ) -> Result<(), RoundError> {
        let own = layout.secret_path(layout.secret);
        let ring = layout.secret_path(KEYRING);
        match (step, &observed.secret, &observed.keyring) {
            (Step::CreateKey, _, _) => {
                let key = generate(desired).await?;
                let secret = ToolSecret::object(layout, &key, desired, None);
                self.objects.create(&layout.secrets_path(), &secret).await?;
                info!(key = fingerprint(&key.public), "SSH key created");
            }
            (Step::WriteHosts, Found::Own(secret), _) => {
                let hosts = secret.replaced(layout, &secret.key, desired);
                self.objects.replace(&own, &hosts).await?;
                if layout.tool == GitOpsTool::Argocd {
                    self.write_argocd_hosts(desired).await?;
                }
                info!("known host keys of the GitOps tool replaced");
                // Otherwise the registry has other ones now.
                if self.placed_hosts.as_ref() == Some(&desired.known_hosts) {
                    let now = OffsetDateTime::now_utc();
                    repairs::announce_hosts(&self.objects, layout, now).await;
                    self.watch.is_outdated = true;
                }
            }
            (Step::Register(keys), _, _) => self.register(desired, keys).await?,
            (Step::PrepareNext, Found::Own(secret), _) => {
                let next = generate(desired).await?;
                let keyring = Keyring::object(layout, &secret.key, &next);
                self.objects
                    .create(&layout.secrets_path(), &keyring)
                    .await?;
                info!(
                    key = fingerprint(&next.public),
                    "rotation of the SSH key begun"
                );
            }
            (Step::UseNext, Found::Own(secret), Found::Own(keyring)) => {
                let next = secret.replaced(layout, &keyring.next, desired);
                self.objects.replace(&own, &next).await?;
                info!("next SSH key given to the GitOps tool");
            }
            (Step::UsePrevious, Found::Own(secret), Found::Own(keyring)) => {
                let previous = secret.replaced(layout, &keyring.previous, desired);
                self.objects.replace(&own, &previous).await?;
                warn!("previous SSH key given back to the GitOps tool");
            }
            (Step::RequestSync(token), _, _) => {
                if let Some(source) = self.objects.get(layout.source).await? {
                    let requested = sync::with_request(source, &token);
                    self.objects.replace(layout.source, &requested).await?;
                }
            }
            (Step::MarkFailed(message), _, Found::Own(keyring)) => {
                let failed = keyring.failed(layout, &shortened(&message));
                self.objects.replace(&ring, &failed).await?;
            }
            (Step::DeleteKeyring, _, Found::Own(keyring)) => {
                self.objects.delete(&ring, &keyring.version).await?;
                info!("rotation of the SSH key ended");
            }
            // `decide` returns these steps only with their Secrets.
            _ => {}
        }
        Ok(())
    }

    /// Object whose annotation pauses repairs of the tool's Secret.
    async fn paused_by(&self, layout: &Layout, secret: &Found<ToolSecret>) -> Option<String> {
        let namespace = layout.namespace;
        if let Found::Own(secret) = secret
            && secret.is_paused
        {
            return Some(format!("Secret {namespace}/{}", layout.secret));
        }
        let is_paused = tool_watch::is_paused(&self.objects, layout).await;
        is_paused.then(|| format!("Namespace {namespace}"))
    }

    async fn register(&mut self, desired: &Desired, keys: AgentKeys) -> Result<(), RoundError> {
        let expected = desired.keys.clone();
        let report = KeyReport { expected, keys };
        let receipt = self.registry.replace(&report).await?;
        self.reported = Some(receipt.keys);
        Ok(())
    }

    /// Publishes a status, and logs each new problem once.
    fn publish(&self, status: GitOpsStatus) {
        let is_new = self.status.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&status);
            if is_new {
                *known = Some(status.clone());
            }
            is_new
        });
        if let Some(problem) = status.problem().filter(|_| is_new) {
            let (code, next) = (problem.code(), problem.code().next_step());
            warn!(%code, cause = %problem, next, "GitOps key or sync has a problem");
        }
    }
}

/// Makes a key apart from the threads of sessions: RSA takes seconds.
async fn generate(desired: &Desired) -> Result<Key, KeyError> {
    let (kind, rotation) = (desired.key_type, desired.rotation);
    let made = tokio::task::spawn_blocking(move || KeyPair::generate(kind)).await;
    let pair = made.map_err(|_| KeyError::Generate)??;
    Ok(Key::new(&pair, rotation))
}

fn status(
    desired: &Desired,
    observed: &Observed,
    phase: Phase,
    problem: Option<Problem>,
) -> GitOpsStatus {
    let key = match &observed.secret {
        Found::Own(secret) => fingerprint(&secret.key.public),
        Found::Absent | Found::Foreign => None,
    };
    let next_key = match &observed.keyring {
        Found::Own(keyring) if keyring.failure.is_none() => fingerprint(&keyring.next.public),
        _ => None,
    };
    GitOpsStatus {
        tool: desired.tool,
        phase,
        problem,
        key_type: desired.key_type,
        next_key: next_key.filter(|next| key.as_ref() != Some(next)),
        key,
        health: None,
        repairs: Vec::new(),
        found: None,
    }
}

/// A tool of others that is not to be adopted.
fn left_alone(desired: &Desired, found: &FoundTool) -> Option<Problem> {
    if found.state != FoundState::Foreign || desired.adopt {
        return None;
    }
    let unknown = || "unknown".to_owned();
    let version = found.version.clone().unwrap_or_else(unknown);
    let by = found.by.clone().unwrap_or_else(unknown);
    let tool = desired.tool.as_str();
    let cause = format!("{tool} is in the cluster: version {version}, installed by {by}");
    Some(Problem::ToolFound(cause))
}

fn stopped(tool: GitOpsTool, key_type: SshKeyType, problem: Problem) -> GitOpsStatus {
    GitOpsStatus {
        tool,
        phase: Phase::Stopped,
        problem: Some(problem),
        key_type,
        key: None,
        next_key: None,
        health: None,
        repairs: Vec::new(),
        found: None,
    }
}

fn problem_of(error: RoundError) -> Problem {
    match error {
        RoundError::Object(error @ ObjectError::Forbidden { .. }) => {
            Problem::Forbidden(error.to_string())
        }
        // The namespace of a new Secret, or the ConfigMap of Argo CD.
        RoundError::Object(ObjectError::Absent(path)) => Problem::ToolAbsent(path),
        other => Problem::Unreachable(error_chain(&other)),
    }
}

#[cfg(test)]
mod tests;
