//! Commands of people to a deployment, and their rights.

use fairlead_api::{
    Code, Failure,
    delivery::{Run, RunKind},
};
use fairlead_registry::{allow_in, visible};
use fairlead_routes::reply::{Answer, Rejected};
use fairlead_seam::Caller;
use fairlead_store::{
    View,
    model::{BundleRecord, Cluster},
};
use tracing::info;

use super::{NewCommand, Runs};
use crate::{hub_bundles, rights::DELIVER};

/// Failure of a request for a bundle that is missing, hidden, or out of the cluster's reach.
pub(crate) fn no_such_bundle(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no bundle {id:?} is visible"))
        .next("List the visible bundles with `fairlead bundle list`.")
}

/// The bundle if it reaches the cluster: it belongs to the cluster's tenant, or to one above.
///
/// Whoever sees a cluster sees its deployments, also those of a tenant above.
pub(super) fn bundle_for<'a>(
    view: &'a View,
    cluster: &Cluster,
    id: &str,
) -> Result<&'a BundleRecord, Failure> {
    let bundle = hub_bundles::named(&cluster.id, id);
    let bundle = bundle.and_then(|id| view.bundle(&id)).map(|it| &it.value);
    let bundle = bundle.filter(|it| view.within(&cluster.tenant, &it.tenant));
    bundle.ok_or_else(|| no_such_bundle(id))
}

/// Checks that the objects of a bundle are to be removed from a cluster: otherwise they would come back at once.
fn check_removal(cluster: &Cluster, bundle: &BundleRecord) -> Result<(), Failure> {
    if bundle.removals.contains_key(&cluster.id) {
        return Ok(());
    }
    let cause = format!("{} is not to be removed from {}", bundle.id, cluster.id);
    Err(Failure::with_cause(Code::RemovalNotOrdered, cause))
}

/// A command to the deployment of a bundle in a cluster.
pub(super) struct Command<'a> {
    pub(super) cluster: &'a str,
    pub(super) bundle: &'a str,
    pub(super) kind: RunKind,
    pub(super) confirm: bool,
}

impl Runs {
    /// Checks the rights, and queues the command.
    pub(super) async fn command(&self, caller: &Caller, command: Command<'_>) -> Answer<Run> {
        let view = self.parts.store.view();
        let cluster = visible(&view, caller, command.cluster)?;
        let cluster = &cluster.value;
        let caller = allow_in(&view, caller, cluster, DELIVER)?;
        let bundle = bundle_for(&view, cluster, command.bundle)?;
        if command.kind == RunKind::Remove {
            check_removal(cluster, bundle)?;
        }
        let created = self.create(NewCommand {
            cluster: cluster.id.clone(),
            bundle: bundle.id.clone(),
            kind: command.kind,
            generation: bundle.newest().map_or(0, |it| it.number),
            content: None,
            confirm: command.confirm,
            created_by: caller.name.clone(),
        });
        let run = created.await.map_err(Rejected::from)?;
        let (id, confirm) = (&run.id, run.confirm);
        info!(run = %id, cluster = %run.cluster, bundle = %run.bundle, kind = ?run.kind, confirm, caller = caller.name, "run created");
        Ok(run)
    }
}
