//! Checks in the agent's cluster: its API server, and the rights of the agent.

use fairlead_api::{
    TenantId,
    checkup::{CheckSection, CheckedStage},
};
use fairlead_apiserver::Upstream;
use tokio::time::Instant;

use super::all_not_tried;
use crate::{proxy::probe, rights};

const STAGES: [&str; 2] = ["api-server", "rights"];

/// Checks of one cluster.
pub(super) struct ClusterCheck<'a> {
    pub(super) upstream: &'a Upstream,
    pub(super) target: String,
    /// Tenant whose groups the agent impersonates, if known.
    pub(super) tenant: Option<&'a TenantId>,
    pub(super) namespace: &'a str,
    /// Whether the identity is a Secret of the cluster.
    pub(super) keeps_secret: bool,
}

impl ClusterCheck<'_> {
    pub(super) async fn run(self) -> CheckSection {
        let mut section = self.section();
        let since = Instant::now();
        let ready = probe::check_ready(self.upstream).await;
        let is_ready = ready.is_ok();
        let ready = ready.map(|()| "ready".to_owned());
        section.add("api-server", since.elapsed(), ready);
        if !is_ready {
            section.stages.push(CheckedStage::not_tried("rights"));
            return section;
        }
        let since = Instant::now();
        let place = self.keeps_secret.then_some(self.namespace);
        let needed = rights::needed(self.tenant, place);
        let granted = rights::check(self.upstream, &needed).await;
        section.add("rights", since.elapsed(), granted);
        section
    }

    pub(super) fn not_tried(self) -> CheckSection {
        let mut section = self.section();
        section.stages.extend(all_not_tried(&STAGES));
        section
    }

    fn section(&self) -> CheckSection {
        CheckSection::new(format!("API server {}", self.target))
    }
}
