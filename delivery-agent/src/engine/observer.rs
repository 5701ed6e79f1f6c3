//! Observation of deployments between runs: drift, health, and changed Secrets.

use std::sync::Arc;

use fairlead_api::{
    BundleId,
    delivery::{BundleKind, DriftPolicy, Spec},
};
use fairlead_manifests::{ObjectKey, ObjectKind};
use tokio::sync::mpsc;

use super::{
    executor::{Executor, SecretReader},
    stop::CorrectionStop,
};
use crate::{
    drift::{
        DeliveryOwner, DriftGrant, DriftMonitor, DriftReport, FencedAccess, FollowedDeployment,
        FollowedObject, RollbackNote,
    },
    fence::{AccountName, Fences},
    helm::{ReleaseFinding, ReleaseTarget, ReleaseWatches, WatchedRelease},
    journal::{Journal, JournalContent, StoredObject},
    kube::Discovery,
    secrets::{ClusterSecrets, SecretChange, SecretChanges, SecretName},
    uploads::Uploads,
};

/// A deployment in the cluster.
pub(super) struct ObservedDeployment {
    pub(super) bundle: BundleId,
    pub(super) generation: u64,
    pub(super) spec: Arc<Spec>,
    /// The applied objects.
    pub(super) content: Arc<JournalContent>,
    pub(super) journal: Journal,
    /// UID of the journal, to which tokens are bound.
    pub(super) journal_uid: String,
    /// Executor of the kind; none for Helm without a runner.
    pub(super) executor: Option<Arc<dyn Executor>>,
    /// True for the first observation of this process, without a run before it: versions of Secrets are unknown then.
    pub(super) is_restarted: bool,
    /// Reason not to correct the objects now.
    pub(super) stop: Option<CorrectionStop>,
    /// Returns to the last good state so far.
    pub(super) rollbacks: RollbackNote,
    /// Newest revision of the release that a run wrote; none for manifests.
    pub(super) revision: Option<u32>,
}

/// Observer of all deployments.
pub(crate) struct Observer {
    monitor: DriftMonitor,
    changes: Arc<SecretChanges>,
    releases: ReleaseWatches,
    reader: ClusterSecrets,
    access: FencedAccess,
    discovery: Discovery,
}

/// Findings of an observer.
pub(crate) struct Findings {
    pub(crate) drift: mpsc::Receiver<DriftReport>,
    pub(crate) secrets: mpsc::Receiver<SecretChange>,
    pub(crate) releases: mpsc::Receiver<ReleaseFinding>,
}

impl Observer {
    pub(crate) fn new(fences: Fences, discovery: Discovery, uploads: Uploads) -> (Self, Findings) {
        let access = FencedAccess::new(fences, uploads);
        let (monitor, drift) = DriftMonitor::new(Arc::new(access.clone()));
        let (changes, secrets) = SecretChanges::new(Arc::new(access.clone()));
        let changes = Arc::new(changes);
        let (releases, found) = ReleaseWatches::new(Arc::new(access.clone()));
        let observer = Self {
            reader: ClusterSecrets::new(changes.clone()),
            monitor,
            changes,
            releases,
            access,
            discovery,
        };
        let findings = Findings {
            drift,
            secrets,
            releases: found,
        };
        (observer, findings)
    }

    /// Reader of Secrets for runs.
    pub(super) fn reader(&self) -> &dyn SecretReader {
        &self.reader
    }

    /// Observes a deployment from now on.
    pub(super) async fn follow(&self, deployment: ObservedDeployment) {
        let ObservedDeployment { bundle, spec, .. } = deployment;
        let Ok(account) = AccountName::parse(&spec.service_account) else {
            return;
        };
        let user = account.user();
        let grant = DriftGrant {
            account,
            journal: deployment.journal,
            journal_uid: deployment.journal_uid,
            executor: deployment.executor,
            generation: deployment.generation,
        };
        self.access.grant(&bundle, grant);
        if deployment.is_restarted && !spec.secrets.is_empty() {
            // The first look finds another version than none, so that a change meanwhile is not missed.
            let names = spec.secrets.iter();
            let names = names.map(|input| (SecretName::of(input, &spec.namespace), None));
            self.changes
                .follow(&bundle, &spec.service_account, names.collect());
        }
        let target = ReleaseTarget::of(&spec).ok();
        if spec.kind == BundleKind::Helm
            && spec.drift != DriftPolicy::Ignore
            && deployment.stop != Some(CorrectionStop::NotTargeted)
            && let Some((target, revision)) = target.zip(deployment.revision)
        {
            self.releases.follow(WatchedRelease {
                bundle: bundle.clone(),
                account: spec.service_account.clone(),
                target,
                revision,
            });
        }
        let Ok(table) = self.discovery.table().await else {
            // The next run, or the next start, follows it.
            return;
        };
        let followed = |object: &StoredObject| {
            let manifest = object.manifest();
            let resource = table.get_any_version(&ObjectKind::of(&manifest)?)?.clone();
            let key = ObjectKey::of(&manifest)?;
            let (text, baseline) = (object.text().clone(), object.baseline.clone());
            Some(FollowedObject::new(key, resource, text, baseline))
        };
        // Objects of nobody are no drift, whatever others do with them.
        let policy = match deployment.stop {
            Some(CorrectionStop::NotTargeted) => DriftPolicy::Ignore,
            _ => spec.drift,
        };
        let owner = match spec.kind {
            BundleKind::Manifests => DeliveryOwner::Bundle(bundle.clone()),
            BundleKind::Helm => DeliveryOwner::Helm,
        };
        let followed = FollowedDeployment {
            bundle,
            account: spec.service_account.clone(),
            user,
            owner,
            policy,
            reports_only: deployment.stop.is_some(),
            ignore: spec.ignore.clone(),
            objects: deployment
                .content
                .objects
                .iter()
                .filter_map(followed)
                .collect(),
            rollbacks: deployment.rollbacks,
        };
        self.monitor.follow(followed).await;
    }

    /// Ends the observation before a run. No correction runs after this, and no finding of before outlasts the run: objects of
    /// an interrupted run differ from those that were applied last.
    pub(super) async fn release(&self, bundle: &BundleId) {
        self.releases.release(bundle);
        self.monitor.release(bundle).await;
        self.monitor.withdraw(bundle).await;
    }

    /// Forgets a deployment.
    pub(super) async fn forget(&self, bundle: &BundleId) {
        self.release(bundle).await;
        self.changes.release(bundle);
        self.access.revoke(bundle);
    }

    /// Ends the observation of all deployments: another agent may observe them now.
    pub(super) async fn stop(&self) {
        self.monitor.release_all().await;
        self.changes.release_all();
        self.releases.release_all();
        self.access.revoke_all();
    }

    /// Number of observed deployments.
    #[cfg(test)]
    pub(crate) async fn followed(&self) -> usize {
        self.monitor.followed().await
    }
}
