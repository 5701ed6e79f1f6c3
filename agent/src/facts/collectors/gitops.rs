//! `gitops`: state of the agent's SSH key for the GitOps tool, and the problem of the last sync. It reads nothing from
//! the API server.

use fairlead_gitops::GitOpsStatus;

use crate::facts::{
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

pub(super) struct GitOpsKey(Option<GitOpsStatus>);

impl GitOpsKey {
    pub(super) fn new(status: Option<GitOpsStatus>) -> Self {
        GitOpsKey(status)
    }
}

impl Collector for GitOpsKey {
    fn sources(&self) -> Vec<CollectorSource> {
        Vec::new()
    }

    fn take(&mut self, _: usize, _: &[u8]) -> Result<(), serde_json::Error> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        let status = self.0.as_ref();
        let fact = status.map(|it| CollectedFact::whole("gitops", it.to_fact()));
        fact.into_iter().collect()
    }
}
