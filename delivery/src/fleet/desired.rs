//! Desired state of one cluster, and the specs that it may read.

use std::sync::Arc;

use fairlead_api::{
    ClusterId,
    delivery::{ArtifactId, DesiredState, SpecId},
};
use fairlead_bundle::RenderedSpec;
use fairlead_store::model::hex;
use serde::Deserialize;

use super::Fleet;

impl Fleet {
    /// Bundles of a cluster in the order of their ids; `None` without such a cluster.
    pub(crate) fn desired(&self, cluster: &ClusterId) -> Option<DesiredState> {
        let entry = self.clusters.get(cluster)?;
        if self.awaits_confirmation() {
            return Some(DesiredState::default());
        }
        let is_purged = entry.record.value.purge.is_some();
        let bundles = self.bundles.values();
        let kept = bundles.filter_map(|it| it.desired(cluster));
        let kept = kept.filter(|it| !(is_purged && it.remove));
        let purged = is_purged.then(|| self.purged(cluster));
        let mut bundles: Vec<_> = kept.chain(purged.into_iter().flatten()).collect();
        bundles.sort_by(|one, other| one.bundle.cmp(&other.bundle));
        Some(DesiredState {
            bundles,
            commands: self.commands.get(cluster).copied().unwrap_or(0),
        })
    }

    /// The spec with this name, if the desired state of the cluster has it.
    pub(crate) fn spec(&self, cluster: &ClusterId, id: &SpecId) -> Option<Arc<RenderedSpec>> {
        let found = self.specs(cluster).find(|it| it.id == *id);
        found.cloned()
    }

    /// True if a spec of the cluster's desired state names the artifact.
    pub(crate) fn names_artifact(&self, cluster: &ClusterId, id: &ArtifactId) -> bool {
        let mut specs = self.specs(cluster);
        specs.any(|it| artifact_of(&it.json).is_some_and(|it| it == *id))
    }

    fn specs<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a Arc<RenderedSpec>> {
        let bundles = self
            .bundles
            .values()
            .filter(|_| !self.awaits_confirmation());
        let cells = bundles.filter_map(|it| it.cells.get(cluster));
        let targeted = cells.filter(|it| it.targeting().is_targeted());
        targeted.filter_map(|it| it.spec.as_ref())
    }

    /// Takes the ETag of a cluster's desired state, if that may have changed.
    pub(crate) fn take_etag(
        &mut self,
        cluster: &ClusterId,
    ) -> Option<(ClusterId, Option<Arc<str>>)> {
        let is_dirty = self.dirty.remove(cluster);
        is_dirty.then(|| {
            (
                cluster.clone(),
                self.desired(cluster).map(|it| etag_of(&it)),
            )
        })
    }

    /// Takes clusters whose desired state may have changed, `limit` at most, with the ETags of their states.
    pub(crate) fn take_etags(&mut self, limit: usize) -> Vec<(ClusterId, Option<Arc<str>>)> {
        let mut etags = Vec::new();
        while etags.len() < limit
            && let Some(cluster) = self.dirty.pop_first()
        {
            let etag = self.desired(&cluster).map(|it| etag_of(&it));
            etags.push((cluster, etag));
        }
        etags
    }
}

/// ETag of a desired state, without quotes.
pub(crate) fn etag_of(state: &DesiredState) -> Arc<str> {
    hex::hash_of(state).into()
}

/// Artifact of a spec.
fn artifact_of(spec: &[u8]) -> Option<ArtifactId> {
    // Texts of people in a spec may name artifacts too, so only this field counts.
    #[derive(Deserialize)]
    struct SpecContent {
        artifact: ArtifactId,
    }
    let content: SpecContent = serde_json::from_slice(spec).ok()?;
    Some(content.artifact)
}
