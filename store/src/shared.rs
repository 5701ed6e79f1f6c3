//! State that the store's handle, its writer and its readers have in common.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use fairlead_api::{ClusterId, HubUrl};
use tokio::sync::{Notify, broadcast, watch};

use crate::{
    agent_hubs::AgentAddress,
    backend::{Backend, DocumentRow, OwnHub},
    clock::Clock,
    leadership::Leadership,
    metrics::Meter,
    model::TenantQuotas,
    observations::Observations,
    parts::Parts,
    quota_terms::QuotaTerms,
    record::Kind,
    remote_commits::RemoteCommits,
    revision::Revision,
    token_uses::TokenUses,
    view::View,
};

/// Addresses of this hub.
#[derive(Debug, Clone)]
pub(crate) struct HubAddresses {
    /// For people and agents.
    pub(crate) url: HubUrl,
    /// For the other hubs.
    pub(crate) internal: HubUrl,
    /// For agents, in the list that they learn.
    pub(crate) agents: AgentAddress,
}

/// State shared by the writer and the readers.
pub(crate) struct StoreState {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) view: ArcSwap<View>,
    pub(crate) revision: watch::Sender<Revision>,
    pub(crate) observations: Observations,
    /// Last uses of API tokens at this hub.
    pub(crate) token_uses: TokenUses,
    pub(crate) meter: Meter,
    /// Revisions committed by other hubs.
    pub(crate) remote_commits: RemoteCommits,
    /// Notified when another hub may have committed.
    pub(crate) remote_change: Notify,
    /// Clusters with a revoked identity.
    pub(crate) revocations: broadcast::Sender<ClusterId>,
    /// Default quotas of tenants, set by [`Store::set_quotas`].
    pub(crate) quotas: OnceLock<TenantQuotas>,
    /// Addresses of this hub, set by [`Store::begin`].
    pub(crate) addresses: OnceLock<HubAddresses>,
    pub(crate) parts: Parts,
    pub(crate) leadership: Leadership,
}

impl StoreState {
    /// This hub as the others find it; `None` before [`Store::begin`].
    pub(crate) fn own_hub(&self) -> Option<OwnHub<'_>> {
        let addresses = self.addresses.get()?;
        Some(OwnHub {
            id: self.observations.me(),
            url: &addresses.url,
            address: &addresses.internal,
            agents: &addresses.agents,
        })
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn quota_terms(&self) -> QuotaTerms {
        QuotaTerms {
            defaults: self.quotas.get().copied().unwrap_or_default(),
            hubs: self.observations.live_hubs(),
            minute: self.clock.now().unix_timestamp().div_euclid(60),
        }
    }

    /// The database, counted as a read that memory cannot serve.
    pub(crate) fn counted_backend(&self) -> &dyn Backend {
        self.meter.read();
        self.backend.as_ref()
    }

    /// Makes a committed view visible.
    pub(crate) fn publish<'a>(
        &self,
        view: View,
        written: impl IntoIterator<Item = &'a DocumentRow>,
    ) {
        if view.revision == self.view().revision {
            return;
        }
        let revision = view.revision;
        let before = self.view.swap(Arc::new(view));
        let rows = written.into_iter().filter(|row| row.kind == Kind::Cluster);
        let rows: Vec<&DocumentRow> = rows.collect();
        self.forget_deleted(&rows);
        self.revision.send_replace(revision);
        let written = rows.iter().filter_map(|row| row.id.parse().ok());
        self.announce_revocations(&before, written);
    }

    /// Announces clusters with a revoked identity among the written ones.
    pub(crate) fn announce_revocations(
        &self,
        before: &View,
        written: impl IntoIterator<Item = ClusterId>,
    ) {
        let view = self.view();
        for id in written {
            let now = view.cluster(&id);
            let revoked = before
                .cluster(&id)
                .is_some_and(|was| now.is_none_or(|now| now.value.revokes_identity_of(&was.value)));
            if revoked {
                // Without a gateway there are no subscribers.
                let _ = self.revocations.send(id);
            }
        }
    }

    /// A cluster with the id of a deleted one starts without observed status, even if an
    /// observation arrived during the deletion.
    fn forget_deleted(&self, clusters: &[&DocumentRow]) {
        let gone = clusters
            .iter()
            .filter(|row| row.body.is_none() || row.version == 1);
        let gone: Vec<ClusterId> = gone.filter_map(|row| row.id.parse().ok()).collect();
        if !gone.is_empty() {
            self.observations.forget(&gone);
        }
    }
}
