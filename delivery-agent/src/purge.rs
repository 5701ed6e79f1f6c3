//! Removal of delivered objects by a person with a kubeconfig, without hub and agent. The journals name the objects.
//!
//! The rules are those of a tombstone: the order of kinds, UID preconditions, and only objects that still carry the mark of
//! their bundle. Hooks of charts do not run, because there is no runner.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use fairlead_api::{BundleId, Code, Failure, delivery::BundleKind};
use fairlead_apiserver::Upstream;
use fairlead_manifests::{
    DeleteDecision, Inventory, InventoryEntry, decide_delete, decide_delete_owned, plan_removal,
};
use fairlead_runner::release::selector;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    ProcessIdentity,
    helm::ReleaseTarget,
    journal::Journal,
    kube::{Discovery, KubeClient, KubeError, Propagation, Query},
};

/// Longest wait for the end of the objects of one stage.
const GONE_DEADLINE: Duration = Duration::from_secs(120);
const GONE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Beginning of the ids of bundles that the hub makes itself for a GitOps tool. The id of the cluster follows, or its digest.
const TOOL_BUNDLE_PREFIX: &str = "b-gitops-";

/// Delivered objects of a cluster, by bundle. Dependents come first.
pub struct PurgePlan {
    kube: KubeClient,
    discovery: Discovery,
    bundles: Vec<DeliveredBundle>,
}

/// A bundle with objects in the cluster.
struct DeliveredBundle {
    id: BundleId,
    inventory: Arc<Inventory>,
    release: Option<ReleaseTarget>,
    needs: Vec<BundleId>,
}

/// Selection of bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeScope {
    /// All bundles.
    All,
    /// The GitOps tool alone, which the hub installed.
    Tool,
}

/// A failed purge. A second one completes it, because the journals stay.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// The API server refused a request or did not answer.
    #[error("{what}: {cause}")]
    Kube {
        /// Object or list of the request.
        what: String,
        /// Cause.
        #[source]
        cause: KubeError,
    },
    /// A journal cannot be read, so its objects are unknown.
    #[error("the journal of {bundle} is damaged: {damage}")]
    Damaged {
        /// The bundle.
        bundle: BundleId,
        /// Damage.
        damage: String,
    },
    /// An object with a finalizer of others.
    #[error("{0} is being deleted, and waits for its finalizers")]
    Waits(String),
}

impl From<PurgeError> for Failure {
    fn from(error: PurgeError) -> Self {
        let cause = fairlead_api::error_chain(&error);
        let (code, next) = match error {
            PurgeError::Kube {
                cause:
                    KubeError::Status {
                        status: 401 | 403, ..
                    },
                ..
            } => (
                Code::NotAllowed,
                "Use a kubeconfig of a cluster administrator.",
            ),
            PurgeError::Kube { .. } => {
                (Code::ApiUnreachable, "Run the command again: it continues.")
            }
            PurgeError::Damaged { .. } => (
                Code::JournalDamaged,
                "Remove the objects with the label of this bundle by hand, delete the Secret of the journal, and run the command again.",
            ),
            PurgeError::Waits(_) => (
                Code::DeploymentWaits,
                "Check the controller of these finalizers, and run the command again.",
            ),
        };
        Failure::with_cause(code, cause).next(next)
    }
}

fn failed(what: impl fmt::Display) -> impl FnOnce(KubeError) -> PurgeError {
    move |cause| PurgeError::Kube {
        what: what.to_string(),
        cause,
    }
}

impl PurgePlan {
    /// Reads the journals of the cluster.
    ///
    /// # Errors
    /// [`PurgeError`]: nothing was deleted.
    pub async fn find(upstream: Arc<Upstream>, scope: PurgeScope) -> Result<Self, PurgeError> {
        let kube = KubeClient::new(upstream);
        let journals = Journal::load_all(&kube, &ProcessIdentity::of_host()).await;
        let journals = journals.map_err(failed("journals"))?;
        let mut bundles = BTreeMap::new();
        for (id, journal) in journals {
            if scope == PurgeScope::Tool && !is_of_tool(&id) {
                continue;
            }
            let state = journal.state().await;
            if let Some(damage) = state.record.damage {
                return Err(PurgeError::Damaged { bundle: id, damage });
            }
            let spec = state.content.applied.as_ref();
            let spec = spec.or(state.content.accepted.as_ref());
            let release = spec.filter(|it| it.kind == BundleKind::Helm);
            let bundle = DeliveredBundle {
                id: id.clone(),
                inventory: state.inventory,
                release: release.and_then(|it| ReleaseTarget::of(it).ok()),
                needs: spec.map(|it| it.depends_on.clone()).unwrap_or_default(),
            };
            bundles.insert(id, bundle);
        }
        Ok(PurgePlan {
            discovery: Discovery::new(kube.clone()),
            kube,
            bundles: dependents_first(bundles),
        })
    }

    /// One line for each object, in the order of removal.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let of_bundle = |bundle: &DeliveredBundle| {
            let plan = plan_removal(&bundle.inventory);
            let objects = plan.entries().map(|it| it.key.to_string());
            let release = bundle
                .release
                .as_ref()
                .map(|it| format!("{it}, its records"));
            let lines: Vec<String> = objects.chain(release).collect();
            lines
        };
        self.bundles.iter().flat_map(of_bundle).collect()
    }

    /// Deletes the objects. `log` gets a line for each.
    ///
    /// # Errors
    /// [`PurgeError`]: the rest is still there.
    pub async fn run(&self, log: &mut (dyn FnMut(String) + Send)) -> Result<(), PurgeError> {
        for bundle in &self.bundles {
            for stage in plan_removal(&bundle.inventory).stages {
                let mut going = Vec::new();
                for entry in &stage {
                    going.extend(self.delete(bundle, entry, log).await?);
                }
                self.wait_until_gone(going).await?;
            }
            if let Some(release) = &bundle.release {
                self.delete_records(release, log).await?;
            }
        }
        Ok(())
    }

    /// Path of an object whose deletion has begun.
    async fn delete(
        &self,
        bundle: &DeliveredBundle,
        entry: &InventoryEntry,
        log: &mut (dyn FnMut(String) + Send),
    ) -> Result<Option<(String, String)>, PurgeError> {
        let kind = entry.kind();
        let table = self.discovery.table_of([&kind]).await;
        let table = table.map_err(failed("kinds of the cluster"))?;
        let Some(resource) = table.get_any_version(&kind) else {
            return Ok(None);
        };
        let path = resource.object_path(&entry.key);
        let live = self.kube.get_metadata(&path).await;
        let Some(live) = live.map_err(failed(&entry.key))? else {
            return Ok(None);
        };
        match bundle.decide(entry, &live) {
            DeleteDecision::Keep(cause) => {
                log(format!("Kept {cause}."));
                Ok(None)
            }
            DeleteDecision::Terminating => Ok(Some((path, entry.key.to_string()))),
            DeleteDecision::Delete { uid } => {
                let deleted = self.kube.delete(&path, Some(&uid), Propagation::Background);
                match deleted.await {
                    Ok(_) => {
                        log(format!("Deleted {}.", entry.key));
                        Ok(Some((path, entry.key.to_string())))
                    }
                    // Made again by others meanwhile.
                    Err(KubeError::Status { status: 409, .. }) => Ok(None),
                    Err(cause) => Err(failed(&entry.key)(cause)),
                }
            }
        }
    }

    /// Waits for the end of the objects of a stage, so that a definition outlives its objects.
    async fn wait_until_gone(&self, mut going: Vec<(String, String)>) -> Result<(), PurgeError> {
        let deadline = Instant::now() + GONE_DEADLINE;
        loop {
            let mut left = Vec::new();
            for (path, name) in going {
                let live = self.kube.get_metadata(&path).await;
                if live.map_err(failed(&name))?.is_some() {
                    left.push((path, name));
                }
            }
            let Some((_, name)) = left.first() else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(PurgeError::Waits(name.clone()));
            }
            sleep(GONE_POLL_INTERVAL).await;
            going = left;
        }
    }

    /// Deletes the records of a release, so that Helm does not know it any more.
    async fn delete_records(
        &self,
        release: &ReleaseTarget,
        log: &mut (dyn FnMut(String) + Send),
    ) -> Result<(), PurgeError> {
        let query = Query::of_labels(selector(&release.name)).metadata_only();
        let list = self.kube.list(&release.secrets_path(), &query).await;
        let records = list.map_err(failed(release))?.unwrap_or_default().items;
        for record in &records {
            let name = record.pointer("/metadata/name").and_then(Value::as_str);
            let Some(name) = name else { continue };
            let path = format!("{}/{name}", release.secrets_path());
            let deleted = self.kube.delete(&path, None, Propagation::Background).await;
            deleted.map_err(failed(name))?;
        }
        if !records.is_empty() {
            log(format!("Deleted the records of {release}."));
        }
        Ok(())
    }
}

impl DeliveredBundle {
    fn decide(&self, entry: &InventoryEntry, live: &Value) -> DeleteDecision {
        let Some(release) = &self.release else {
            return decide_delete(entry, live, self.id.as_str());
        };
        let annotation = |name: &str| live.pointer("/metadata/annotations")?.get(name)?.as_str();
        let is_ours = annotation("meta.helm.sh/release-name") == Some(release.name.as_str())
            && annotation("meta.helm.sh/release-namespace") == Some(release.namespace.as_str());
        match is_ours {
            true => decide_delete_owned(entry, live),
            false => DeleteDecision::Keep(format!("{} belongs to no {release}", entry.key)),
        }
    }
}

/// Order in which no bundle is removed while another one needs it. A circle is broken anywhere.
fn dependents_first(mut bundles: BTreeMap<BundleId, DeliveredBundle>) -> Vec<DeliveredBundle> {
    let mut ordered = Vec::with_capacity(bundles.len());
    while !bundles.is_empty() {
        let is_needed = |id: &BundleId| {
            bundles
                .values()
                .any(|it| it.id != *id && it.needs.contains(id))
        };
        let free = bundles.keys().find(|id| !is_needed(id));
        let Some(next) = free.or_else(|| bundles.keys().next()).cloned() else {
            break;
        };
        ordered.extend(bundles.remove(&next));
    }
    ordered
}

fn is_of_tool(bundle: &BundleId) -> bool {
    bundle.as_str().starts_with(TOOL_BUNDLE_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(id: &str, needs: &[&str]) -> (BundleId, DeliveredBundle) {
        let id: BundleId = id.parse().unwrap();
        let bundle = DeliveredBundle {
            id: id.clone(),
            inventory: Arc::default(),
            release: None,
            needs: needs.iter().map(|it| it.parse().unwrap()).collect(),
        };
        (id, bundle)
    }

    fn order(bundles: impl IntoIterator<Item = (BundleId, DeliveredBundle)>) -> Vec<String> {
        let ordered = dependents_first(bundles.into_iter().collect());
        ordered.iter().map(|it| it.id.to_string()).collect()
    }

    #[test]
    fn dependents_go_before_the_bundles_that_they_need() {
        let bundles = [
            bundle("b-a", &[]),
            bundle("b-b", &["b-a", "b-gone"]),
            bundle("b-c", &["b-b"]),
        ];
        assert_eq!(order(bundles), ["b-c", "b-b", "b-a"]);
    }

    #[test]
    fn circle_of_bundles_is_removed_all_the_same() {
        let bundles = [bundle("b-a", &["b-b"]), bundle("b-b", &["b-a"])];
        assert_eq!(order(bundles).len(), 2);
    }

    #[test]
    fn tool_of_the_hub_is_known_by_its_bundle() {
        for (bundle, is_tool) in [
            ("b-gitops-c-lucky-wharf-6404", true),
            ("b-catalog-c-lucky-wharf-6404", false),
            ("b-shop", false),
        ] {
            assert_eq!(is_of_tool(&bundle.parse().unwrap()), is_tool, "{bundle}");
        }
    }
}
