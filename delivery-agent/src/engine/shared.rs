//! Parts that all workers of the engine share.

use std::sync::Arc;

use fairlead_api::{
    BundleId,
    delivery::{BundleKind, DeploymentReport, Spec},
};
use tokio::sync::{Semaphore, watch};

use super::{executor::Executor, observer::Observer, site::SiteLimits};
use crate::{
    content::ContentCache,
    fence::Fences,
    follow::Desired,
    kube::{Discovery, KubeClient},
    reports::States,
    uploads::Uploads,
};

/// Executors by kind of bundle.
#[derive(Clone)]
pub struct Executors {
    /// For manifests.
    pub manifests: Arc<dyn Executor>,
    /// For Helm charts; none without a runner.
    pub helm: Option<Arc<dyn Executor>>,
}

impl Executors {
    pub(super) fn of(&self, kind: BundleKind) -> Option<&Arc<dyn Executor>> {
        match kind {
            BundleKind::Manifests => Some(&self.manifests),
            BundleKind::Helm => self.helm.as_ref(),
        }
    }
}

/// Parts that all workers share.
pub(crate) struct Shared {
    pub(crate) client: KubeClient,
    pub(crate) discovery: Discovery,
    pub(crate) fences: Fences,
    pub(crate) content: ContentCache,
    pub(crate) executors: Executors,
    pub(crate) observer: Observer,
    pub(crate) desired: watch::Receiver<Desired>,
    pub(crate) site: watch::Receiver<Arc<SiteLimits>>,
    pub(crate) states: watch::Sender<States>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) uploads: Uploads,
}

impl Shared {
    /// Publishes the state of a deployment.
    pub(super) fn report(&self, report: DeploymentReport) {
        self.states.send_if_modified(|states| {
            let known = states.reports.get(&report.bundle);
            let is_new = known != Some(&report);
            if is_new {
                states.gone.remove(&report.bundle);
                states.reports.insert(report.bundle.clone(), report);
            }
            is_new
        });
    }

    /// Forgets a deployment. `is_removed`: its tombstone is done.
    pub(super) fn forget(&self, bundle: &BundleId, is_removed: bool) {
        self.states.send_modify(|states| {
            states.reports.remove(bundle);
            if is_removed {
                states.gone.insert(bundle.clone());
            }
        });
    }

    /// First dependency that is not ready at its desired generation.
    pub(super) fn missing_dependency<'a>(&self, spec: Option<&'a Spec>) -> Option<&'a BundleId> {
        use fairlead_api::delivery::DeploymentState;
        let states = self.states.borrow();
        let desired = self.desired.borrow();
        let is_ready = |bundle: &BundleId| {
            let wanted = desired.as_ref().and_then(|desired| {
                let mut bundles = desired.bundles.iter();
                bundles.find(|it| it.bundle == *bundle)
            });
            let wanted = wanted.map_or(0, |wanted| wanted.generation);
            states.reports.get(bundle).is_some_and(|report| {
                report.state == DeploymentState::Ready
                    && report.applied == report.generation
                    && report.applied >= wanted
            })
        };
        spec?.depends_on.iter().find(|bundle| !is_ready(bundle))
    }
}
