//! Records of a release in the cluster: read, and unlocked after a kill.

use fairlead_api::Code;
use fairlead_runner::release::{Record, RecordError, Revision, history, selector};
use serde_json::Value;
use time::OffsetDateTime;

use super::target::ReleaseTarget;
use crate::{
    engine::{FailureClass, RunFailure},
    kube::{KubeClient, KubeError, Query},
};

/// Records of one release.
#[derive(Clone)]
pub(crate) struct Records<'a> {
    pub(crate) kube: &'a KubeClient,
    pub(crate) target: &'a ReleaseTarget,
}

impl Records<'_> {
    /// Revisions, oldest first, from the metadata of their Secrets.
    pub(crate) async fn history(&self) -> Result<Vec<Revision>, RunFailure> {
        let query = Query::of_labels(selector(&self.target.name)).metadata_only();
        let list = self.kube.list(&self.target.secrets_path(), &query).await;
        let list = list.map_err(|error| self.failure(&error))?;
        let items = list.map(|list| list.items).unwrap_or_default();
        Ok(history(&self.target.name, &items))
    }

    /// History with the record of its newest revision, which completes that revision.
    pub(crate) async fn newest(&self) -> Result<(Vec<Revision>, Option<Record>), RunFailure> {
        let mut history = self.history().await?;
        let Some(newest) = history.last_mut() else {
            return Ok((history, None));
        };
        let record = self.record(newest).await?;
        if let Some(record) = &record {
            *newest = record.complete(newest.clone());
        }
        Ok((history, record))
    }

    /// Record of a revision; `None` if it is gone.
    pub(crate) async fn record(&self, revision: &Revision) -> Result<Option<Record>, RunFailure> {
        let path = format!("{}/{}", self.target.secrets_path(), revision.secret);
        let secret = self.kube.get(&path).await;
        let Some(secret) = secret.map_err(|error| self.failure(&error))? else {
            return Ok(None);
        };
        let record = Record::of_secret(&secret).map_err(|error| {
            let Revision { secret, .. } = revision;
            let sentence = format!(
                "{}: Secret {}/{secret}: {error}",
                self.target, self.target.namespace
            );
            RunFailure::new(
                FailureClass::Permanent,
                Code::HelmRecordUnreadable,
                sentence,
            )
        })?;
        Ok(Some(record))
    }

    /// Marks a pending revision as failed. Its program is fenced or dead.
    pub(crate) async fn unlock(&self, revision: &Revision, reason: &str) -> Result<(), RunFailure> {
        let Some(record) = self.record(revision).await? else {
            return Ok(());
        };
        let now = u64::try_from(OffsetDateTime::now_utc().unix_timestamp()).unwrap_or_default();
        let patch = record.unlock_patch(revision, reason, now);
        self.patch(revision, patch).await
    }

    /// Replaces the manifest of a revision, which a rollback to it applies.
    pub(crate) async fn replace_manifest(
        &self,
        revision: &Revision,
        record: &Record,
        manifest: &str,
    ) -> Result<(), RunFailure> {
        let patch = record.manifest_patch(revision, manifest);
        self.patch(revision, patch).await
    }

    async fn patch(
        &self,
        revision: &Revision,
        patch: Result<Value, RecordError>,
    ) -> Result<(), RunFailure> {
        let patch = patch.map_err(|error| {
            let sentence = format!("{}: revision {}: {error}", self.target, revision.number);
            RunFailure::new(FailureClass::Retry, Code::HelmRecordUnreadable, sentence)
        })?;
        let path = format!("{}/{}", self.target.secrets_path(), revision.secret);
        let patched = self.kube.merge_patch(&path, &patch).await;
        patched.map(drop).map_err(|error| self.failure(&error))
    }

    /// Failure of a request about the records.
    pub(crate) fn failure(&self, error: &KubeError) -> RunFailure {
        let mut failure = RunFailure::of_kube(error);
        failure.sentence = format!("{}: {}", self.target, failure.sentence);
        failure
    }
}
