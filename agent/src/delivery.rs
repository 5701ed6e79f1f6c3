//! Delivery of bundles: connects the engine of crate `delivery-agent` with the sessions, and prepares a cluster without install manifest.

mod rights;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fairlead_api::error_chain;
use fairlead_apiserver::ApiServerConfig;
use fairlead_delivery_agent::{
    DeliveryParts, HubConnection, HubUnreachable, LaunchedRunner, ManifestExecutor,
    ProcessIdentity, Runner,
    engine::{Executor, Executors},
    fence::FenceWaits,
    helm::HelmExecutor,
};
use fairlead_exchange::{Answer, body};
use http::{HeaderValue, Request, Response, header};
use tracing::{info, warn};

use crate::{
    config::{DeliveryConfig, RunnerConfig},
    context::{AgentContext, sessions::ServingSessions},
};

/// Runs delivery until the process drains.
pub(crate) async fn run(
    context: Arc<AgentContext>,
    target: ApiServerConfig,
    config: DeliveryConfig,
) {
    let process = match target {
        ApiServerConfig::InCluster { .. } => ProcessIdentity::of_pod(&context.instance.to_string()),
        ApiServerConfig::Kubeconfig { .. } => {
            rights::create_missing(&context.upstream).await;
            ProcessIdentity::of_host()
        }
    };
    // Dropping it ends the contact with a started runner.
    let runner = match config.runner {
        Some(config) => ConnectedRunner::of(config).await,
        None => None,
    };
    let helm = runner.as_ref().map(|runner| {
        let runner = runner.client().clone();
        Arc::new(HelmExecutor::new(runner, context.upstream.clone())) as Arc<dyn Executor>
    });
    info!(helm = helm.is_some(), "delivery enabled");
    let parts = DeliveryParts {
        upstream: context.upstream.clone(),
        hub: Arc::new(HubSessions(context.sessions.clone())),
        wanted: context.deliveries.subscribe(),
        process,
        cache: config.cache,
        executors: Executors {
            manifests: Arc::new(ManifestExecutor),
            helm,
        },
        waits: FenceWaits::default(),
    };
    Box::pin(fairlead_delivery_agent::run(
        parts,
        context.process.draining(),
    ))
    .await;
}

/// Runner of the programs of deliveries.
enum ConnectedRunner {
    OfPod(Runner),
    Started(LaunchedRunner),
}

impl ConnectedRunner {
    /// Starts a runner where the configuration says so. Without one, only bundles of the kind `helm` fail.
    async fn of(config: RunnerConfig) -> Option<Self> {
        let launch = match config {
            RunnerConfig::Socket(socket) => return Some(Self::OfPod(Runner::at(socket))),
            RunnerConfig::Started(launch) => launch,
        };
        match Runner::spawn(&launch).await {
            Ok(runner) => Some(Self::Started(runner)),
            Err(error) => {
                let next = "correct the cause, and start the agent again";
                warn!(error = error_chain(&error), next, "runner not started");
                None
            }
        }
    }

    fn client(&self) -> &Runner {
        match self {
            Self::OfPod(runner) => runner,
            Self::Started(runner) => runner.client(),
        }
    }
}

/// Requests to the hub over any session.
struct HubSessions(Arc<ServingSessions>);

#[async_trait]
impl HubConnection for HubSessions {
    async fn send(
        &self,
        request: Request<Bytes>,
        limit: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        let exchanges = self.0.any().await;
        let mut request = request.map(body::full);
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("hub"));
        headers
            .entry(header::ACCEPT)
            .or_insert(HeaderValue::from_static("application/json"));
        let answer = exchanges.send(request).await;
        let answer = answer.map_err(|error| HubUnreachable(error_chain(&error)))?;
        let Answer::Response(response) = answer else {
            return Err(HubUnreachable("it upgraded a request".to_owned()));
        };
        let (head, body) = response.into_parts();
        let bytes = body::read(body, limit).await;
        let bytes = bytes.map_err(|error| HubUnreachable(error.to_string()))?;
        Ok(Response::from_parts(head, bytes))
    }
}
