//! Journal of a deployment: a Secret that is written before each step, so that a restarted agent goes on without the hub.
//!
//! It has the record of generations and the pending run, the inventory, and the packed content: specs and applied objects.

mod content;
mod record;
mod secret;

use std::{collections::BTreeMap, sync::Arc};

use fairlead_api::{BundleId, Code, delivery::Spec};
use fairlead_manifests::Inventory;
use serde_json::Value;
use tokio::sync::Mutex;
use tracing::warn;

pub use self::{
    content::{JournalContent, StoredObject},
    record::{AcceptedSpec, JournalRecord, PendingRun, RetryState, Standstill, StoredFailure},
};
use crate::{
    engine::{FailureClass, RunFailure},
    fence::DELIVERY_NAMESPACE,
    kube::{KubeClient, KubeError, Propagation, Query},
    process::ProcessIdentity,
};

/// Label of journals and of their parts; its value is the bundle.
pub(crate) const JOURNAL_LABEL: &str = "fairlead/journal";

/// Name of the Secret of a journal. Parts have a dot and a number behind it; ids of bundles have no dot.
#[must_use]
pub fn secret_name(bundle: &BundleId) -> String {
    format!("release-{bundle}")
}

/// State of a deployment, as its journal has it.
#[derive(Debug, Clone, Default)]
pub struct JournalState {
    /// Generations, pending run, retries.
    pub record: JournalRecord,
    /// Objects in the cluster, and those that a run was about to make.
    pub inventory: Arc<Inventory>,
    /// Specs and applied objects.
    pub content: Arc<JournalContent>,
}

/// Journal of one deployment. Clones share it. A change is visible only after it was written.
#[derive(Clone)]
pub struct Journal {
    client: KubeClient,
    bundle: BundleId,
    writer: Arc<str>,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    state: JournalState,
    stored: Option<secret::StoredSecret>,
    /// A write may have happened: the version must be read again.
    is_uncertain: bool,
}

impl Journal {
    /// A journal that is not written yet.
    #[must_use]
    pub fn new(client: KubeClient, bundle: BundleId, process: &ProcessIdentity) -> Self {
        let inner = Inner {
            state: JournalState::default(),
            stored: None,
            is_uncertain: false,
        };
        Self {
            client,
            bundle,
            writer: process.nonce().into(),
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Reads all journals of the cluster. A damaged one has [`JournalRecord::damage`].
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn load_all(
        client: &KubeClient,
        process: &ProcessIdentity,
    ) -> Result<BTreeMap<BundleId, Journal>, KubeError> {
        let path = secret::collection();
        let query = Query::of_labels(JOURNAL_LABEL);
        let list = client.list(&path, &query).await?.unwrap_or_default();
        let mut journals = BTreeMap::new();
        let parts = secret::Parts::of(&list.items);
        for item in &list.items {
            let Some(bundle) = secret::bundle_of(item) else {
                continue;
            };
            let journal = Journal::new(client.clone(), bundle.clone(), process);
            let (state, stored) = secret::read(item, &parts);
            if let Some(damage) = &state.record.damage {
                warn!(%bundle, damage, "journal is damaged");
            }
            {
                let mut inner = journal.inner.lock().await;
                inner.state = state;
                inner.stored = stored;
            }
            journals.insert(bundle, journal);
        }
        Ok(journals)
    }

    /// The bundle.
    #[must_use]
    pub fn bundle(&self) -> &BundleId {
        &self.bundle
    }

    /// State as it is written.
    pub async fn state(&self) -> JournalState {
        self.inner.lock().await.state.clone()
    }

    /// UID of the Secret; none before the first write.
    pub async fn uid(&self) -> Option<String> {
        let inner = self.inner.lock().await;
        inner.stored.as_ref().map(|stored| stored.uid.clone())
    }

    /// Changes the state and writes it.
    ///
    /// # Errors
    /// The journal cannot be written, or is too large; the state is the old one then.
    pub async fn update<T>(
        &self,
        change: impl FnOnce(&mut JournalState) -> T + Send,
    ) -> Result<T, RunFailure> {
        let mut inner = self.inner.lock().await;
        let mut state = inner.state.clone();
        let result = change(&mut state);
        state.record.writer = self.writer.to_string();
        state.record.bundle = Some(self.bundle.clone());
        let is_new_content = inner.stored.is_none()
            || inner.is_uncertain
            || !Arc::ptr_eq(&state.content, &inner.state.content);
        let packed = secret::Packed::of(&state, is_new_content);
        let packed = packed.map_err(|error| self.refused(&error))?;
        if inner.is_uncertain {
            inner.stored = self.read_version(&inner.state.record.writer).await?;
            inner.is_uncertain = false;
        }
        let writing = packed.write(&self.client, &self.bundle, inner.stored.as_ref());
        match writing.await {
            Ok(stored) => {
                inner.stored = Some(stored);
                inner.state = state;
                Ok(result)
            }
            Err(error) => {
                // The next write reads the version first; a missing journal is made again.
                inner.is_uncertain = true;
                Err(self.failed(&error))
            }
        }
    }

    /// Notes the step of the pending run, and the inventory if it changes with it.
    ///
    /// # Errors
    /// As for [`Journal::update`].
    pub async fn set_step(
        &self,
        step: &str,
        inventory: Option<Inventory>,
    ) -> Result<(), RunFailure> {
        self.update(|state| {
            if let Some(pending) = &mut state.record.pending {
                pending.step = step.to_owned();
            }
            if let Some(inventory) = inventory {
                state.inventory = inventory.into_shared();
            }
        })
        .await
    }

    /// Writes the journal again if somebody has deleted it. True if that was so.
    ///
    /// # Errors
    /// As for [`Journal::update`].
    pub(crate) async fn restore(&self) -> Result<bool, RunFailure> {
        let mut inner = self.inner.lock().await;
        if inner.stored.is_none() {
            return Ok(false);
        }
        let path = secret::path(&secret_name(&self.bundle));
        let live = self.client.get_metadata(&path).await;
        if live.map_err(|error| self.failed(&error))?.is_some() {
            return Ok(false);
        }
        warn!(bundle = %self.bundle, "journal was deleted by somebody else; writing it again");
        inner.is_uncertain = true;
        drop(inner);
        self.update(|_| ()).await?;
        Ok(true)
    }

    /// Deletes the journal: the last step of a removal.
    ///
    /// # Errors
    /// The API server is away.
    pub async fn delete(&self) -> Result<(), RunFailure> {
        let mut inner = self.inner.lock().await;
        let name = secret_name(&self.bundle);
        let parts = inner.stored.as_ref().map(secret::StoredSecret::part_names);
        for name in parts.unwrap_or_default().into_iter().chain([name]) {
            let deleted = self
                .client
                .delete(&secret::path(&name), None, Propagation::Background)
                .await;
            deleted.map_err(|error| self.failed(&error))?;
        }
        inner.state = JournalState::default();
        inner.stored = None;
        Ok(())
    }

    /// Version of the Secret after an uncertain write. Only this process may have written after `known`.
    async fn read_version(&self, known: &str) -> Result<Option<secret::StoredSecret>, RunFailure> {
        let name = secret_name(&self.bundle);
        let live = self.client.get(&secret::path(&name)).await;
        let Some(live) = live.map_err(|error| self.failed(&error))? else {
            return Ok(None);
        };
        let writer = secret::record_of(&live).map(|record| record.writer);
        if writer.is_ok_and(|writer| *writer != *self.writer && writer != known) {
            let sentence =
                format!("the journal {DELIVERY_NAMESPACE}/{name} is written by another agent");
            return Err(RunFailure::new(
                FailureClass::Waiting,
                Code::JournalFailed,
                sentence,
            ));
        }
        Ok(secret::StoredSecret::of(&live))
    }

    fn failed(&self, error: &KubeError) -> RunFailure {
        let name = secret_name(&self.bundle);
        let sentence =
            format!("the journal {DELIVERY_NAMESPACE}/{name} cannot be written: {error}");
        let class = if error.is_unavailable() {
            FailureClass::Waiting
        } else {
            FailureClass::Retry
        };
        RunFailure::new(class, Code::JournalFailed, sentence)
    }

    /// Failure of a deployment without the applied objects of its journal.
    pub(crate) fn unreadable(&self, state: &JournalState) -> RunFailure {
        let name = secret_name(&self.bundle);
        let damage = state.record.damage.as_deref();
        let damage = damage.unwrap_or("it has no applied objects");
        let sentence = format!("the journal {DELIVERY_NAMESPACE}/{name} cannot be read: {damage}");
        RunFailure::new(FailureClass::Waiting, Code::JournalDamaged, sentence)
    }

    fn refused(&self, error: &content::ContentTooLarge) -> RunFailure {
        let name = secret_name(&self.bundle);
        let sentence = format!("the journal {DELIVERY_NAMESPACE}/{name} {error}");
        RunFailure::new(FailureClass::Permanent, Code::JournalTooLarge, sentence)
    }
}

/// Spec of the pending or last accepted content.
impl JournalState {
    /// Spec that was accepted last; none before the first, or if the content is damaged.
    #[must_use]
    pub fn accepted_spec(&self) -> Option<&Arc<Spec>> {
        self.content.accepted.as_ref()
    }
}

/// Text field of a Secret's metadata.
fn metadata<'a>(secret: &'a Value, field: &str) -> Option<&'a str> {
    secret.get("metadata")?.get(field)?.as_str()
}

#[cfg(test)]
mod tests;
