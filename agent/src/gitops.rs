//! GitOps key of the cluster: connects the worker of crate `gitops` with configuration, sessions and facts.

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::{
    error_chain,
    gitops::{KEYS_PATH, KeyReceipt, KeyReport},
};
use fairlead_gitops::{KeyRegistry, RegistryUnreachable, Worker};

use crate::{
    context::{AgentContext, sessions::ServingSessions},
    hub_request,
};

/// Runs until the process drains.
pub(crate) async fn run(context: Arc<AgentContext>) {
    let worker = Worker::new(
        context.upstream.clone(),
        Arc::new(HubRecord(context.sessions.clone())),
        context.configuration.document(),
        context.gitops.clone(),
    );
    tokio::select! {
        () = worker.run() => {}
        () = context.process.draining() => {}
    }
}

/// Record of the cluster at the hub, over any session.
struct HubRecord(Arc<ServingSessions>);

#[async_trait]
impl KeyRegistry for HubRecord {
    async fn replace(&self, report: &KeyReport) -> Result<KeyReceipt, RegistryUnreachable> {
        let json = serde_json::to_string(report);
        let json = json.map_err(|error| RegistryUnreachable(error.to_string()))?;
        let exchanges = self.0.any().await;
        let receipt = hub_request::post(&exchanges, KEYS_PATH, json.into()).await;
        receipt.map_err(|error| RegistryUnreachable(error_chain(&error)))
    }
}
