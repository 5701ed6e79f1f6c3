//! Upgrade of the agent by itself: changes the image of its own Deployment when the hub's configuration names an upgrade,
//! and returns to the former image if the new pods do not become ready in time.
//!
//! The state is in an annotation of the Deployment. Each write names the version that it replaces, so several replicas
//! need no leader, and a new process continues where the former one ended.

mod decide;
mod deployment;
mod objects;
mod pods;

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code,
    config::AgentConfig,
    error_chain,
    resources::ClusterUpgradeState,
    upgrade::{DesiredUpgrade, UPGRADE_PATH, UpgradeReceipt, UpgradeReport},
};
use fairlead_apiserver::ApiServerConfig;
use time::OffsetDateTime;
use tokio::{sync::watch, time::timeout};
use tracing::{debug, info, warn};

use crate::{
    config::{Config, UpgradeRule},
    context::AgentContext,
    hub_request::{self, HubRequestError},
};
use decide::{AgentSelf, Decision, decide};
use deployment::{AgentDeployment, NotedUpgrade};
use objects::{DeploymentError, Deployments};

/// Interval at which a running upgrade is observed.
const UPGRADE_POLL_INTERVAL: Duration = Duration::from_secs(3);
/// Longest wait of a report for a session.
const SESSION_WAIT: Duration = Duration::from_secs(5);

/// Settings of the worker.
pub(crate) struct UpgradeSettings {
    /// Namespace of the agent's own Deployment; `None` outside of a pod.
    namespace: Option<String>,
    rule: UpgradeRule,
    version: String,
}

impl UpgradeSettings {
    /// `namespace`: of the agent's own objects.
    pub(crate) fn of(config: &Config, namespace: &str) -> Self {
        let in_pod = matches!(config.target, ApiServerConfig::InCluster { .. });
        UpgradeSettings {
            namespace: in_pod.then(|| namespace.to_owned()),
            rule: config.upgrades,
            version: config.version.clone(),
        }
    }
}

/// Worker that carries out upgrades until the process drains. Call it before the first configuration is fetched.
pub(crate) fn worker(
    context: &Arc<AgentContext>,
    settings: UpgradeSettings,
) -> impl Future<Output = ()> + Send + use<> {
    let draining = context.process.clone();
    let worker = UpgradeWorker {
        deployments: settings
            .namespace
            .map(|namespace| Deployments::new(context.upstream.clone(), namespace)),
        own: AgentSelf {
            version: settings.version,
            rule: settings.rule,
        },
        document: context.configuration.document(),
        context: Arc::clone(context),
        reported: None,
        has_open_upgrade: true,
    };
    async move {
        tokio::select! {
            () = worker.follow() => {}
            () = draining.draining() => {}
        }
    }
}

struct UpgradeWorker {
    context: Arc<AgentContext>,
    /// Configuration in use. Nothing happens before the first one: without a hub, no new pod could become ready.
    document: watch::Receiver<Arc<AgentConfig>>,
    /// `None` outside of a pod.
    deployments: Option<Deployments>,
    own: AgentSelf,
    /// Last report that the hub has received.
    reported: Option<UpgradeReport>,
    /// True while the Deployment may have an upgrade without a result: at first, a former process may have begun one.
    has_open_upgrade: bool,
}

impl UpgradeWorker {
    async fn follow(mut self) {
        let mut is_open = false;
        loop {
            if is_open {
                let _ = timeout(UPGRADE_POLL_INTERVAL, self.document.changed()).await;
            } else if self.document.changed().await.is_err() {
                return;
            }
            let desired = self.document.borrow_and_update().upgrade.clone();
            is_open = self.step(desired.as_ref()).await;
        }
    }

    /// One observation and its action; false if only another configuration can change anything.
    async fn step(&mut self, desired: Option<&DesiredUpgrade>) -> bool {
        if desired.is_none() && !self.has_open_upgrade {
            return false;
        }
        let Some(deployments) = &self.deployments else {
            self.has_open_upgrade = false;
            let cause = "the agent does not run in a pod of the cluster";
            return self.refuse(desired, cause).await;
        };
        let deployment = match deployments.get().await {
            Ok(deployment) => deployment,
            Err(error @ DeploymentError::Unreachable(_)) => {
                let cause = error_chain(&error);
                debug!(cause, "deployment of the agent not read; retrying");
                return true;
            }
            Err(error) => {
                self.has_open_upgrade = false;
                return self.refuse(desired, &error_chain(&error)).await;
            }
        };
        let now = OffsetDateTime::now_utc();
        let decision = decide(&deployment, desired, &self.own, now);
        self.act(decision, &deployment, desired).await
    }

    async fn act(
        &mut self,
        decision: Decision,
        deployment: &AgentDeployment,
        desired: Option<&DesiredUpgrade>,
    ) -> bool {
        self.has_open_upgrade = !matches!(decision, Decision::Nothing | Decision::Report(_));
        match decision {
            Decision::Nothing => false,
            Decision::Refuse(cause) => {
                self.has_open_upgrade = false;
                self.refuse(desired, &cause).await
            }
            Decision::Report(report) => !self.report(report).await,
            Decision::Wait(report) => {
                self.report(report).await;
                true
            }
            Decision::Start(noted) => {
                info!(
                    upgrade = noted.id,
                    version = noted.version,
                    image = noted.image,
                    former_image = noted.former_image,
                    "upgrade of the agent started"
                );
                self.write(deployment, &noted, Some(&noted.image), desired)
                    .await
            }
            Decision::Finish(noted) => {
                info!(upgrade = noted.id, state = %noted.state, cause = noted.cause, "upgrade of the agent ended");
                self.write(deployment, &noted, None, desired).await
            }
            Decision::Return(noted) => {
                let noted = self.with_cause(noted, deployment).await;
                warn!(
                    upgrade = noted.id,
                    cause = noted.cause,
                    image = noted.former_image,
                    "upgrade of the agent failed; returning to the former image"
                );
                self.write(deployment, &noted, Some(&noted.former_image), desired)
                    .await
            }
        }
    }

    /// Adds the cause that the new pods show.
    async fn with_cause(&self, noted: NotedUpgrade, deployment: &AgentDeployment) -> NotedUpgrade {
        let Some(deployments) = self.deployments.as_ref().filter(|_| noted.cause.is_none()) else {
            return noted;
        };
        let pods = deployments.pods(&deployment.selector).await;
        let cause = pods::cause(&pods.unwrap_or_default(), &noted.image);
        let code = Code::AgentRolledBack;
        NotedUpgrade {
            cause: Some(format!("{code}: {cause}")),
            ..noted
        }
    }

    /// Writes the note, and the image if it changes. The next step observes the outcome.
    async fn write(
        &mut self,
        deployment: &AgentDeployment,
        noted: &NotedUpgrade,
        image: Option<&str>,
        desired: Option<&DesiredUpgrade>,
    ) -> bool {
        let Some(deployments) = &self.deployments else {
            return false;
        };
        let patch = deployment.patch(noted, image);
        match deployments.patch(&patch).await {
            Ok(()) => {
                self.report(noted.report()).await;
                true
            }
            Err(DeploymentError::Changed) => true,
            Err(error @ DeploymentError::Unreachable(_)) => {
                let cause = error_chain(&error);
                warn!(cause, "deployment of the agent not changed; retrying");
                true
            }
            Err(error) => {
                self.has_open_upgrade = false;
                self.refuse(desired, &error_chain(&error)).await
            }
        }
    }

    async fn refuse(&mut self, desired: Option<&DesiredUpgrade>, cause: &str) -> bool {
        let Some(desired) = desired else {
            return false;
        };
        let code = Code::AgentUpgradeRefused;
        let report = UpgradeReport {
            id: desired.id.clone(),
            state: ClusterUpgradeState::Refused,
            cause: Some(format!("{code}: {cause}")),
        };
        !self.report(report).await
    }

    /// Reports to the hub, unless it knows; false if the report must be repeated.
    async fn report(&mut self, report: UpgradeReport) -> bool {
        if self.reported.as_ref() == Some(&report) {
            return true;
        }
        let Ok(json) = serde_json::to_string(&report) else {
            return true;
        };
        // Without a session the upgrade goes on: it may have to return.
        let session = timeout(SESSION_WAIT, self.context.sessions.any()).await;
        let Ok(exchanges) = session else {
            return false;
        };
        let sent = hub_request::post::<UpgradeReceipt>(&exchanges, UPGRADE_PATH, json.into()).await;
        match sent {
            Ok(UpgradeReceipt {}) => {}
            Err(error @ (HubRequestError::Refused(_) | HubRequestError::Unexpected(_))) => {
                let cause = error_chain(&error);
                warn!(cause, "report of an upgrade refused by the hub");
            }
            Err(error) => {
                let cause = error_chain(&error);
                debug!(cause, "upgrade not reported; retrying");
                return false;
            }
        }
        info!(upgrade = report.id, state = %report.state, cause = report.cause, "upgrade reported");
        self.reported = Some(report);
        true
    }
}
