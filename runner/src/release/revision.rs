//! Revisions of a release, from the metadata of their Secrets.

use std::collections::HashSet;

use fairlead_api::RunId;
use serde_json::Value;

use crate::{
    names::ReleaseName,
    request::{ATTEMPT_LABEL, BUNDLE_LABEL, RUN_LABEL, SPEC_LABEL},
};

/// Type of the Secrets.
const SECRET_TYPE_PREFIX: &str = "sh.helm.release.v1.";

/// Status of a revision, as Helm names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseStatus {
    /// The newest applied revision.
    Deployed,
    /// A newer revision has replaced it.
    Superseded,
    /// It failed.
    Failed,
    /// The first revision is being installed.
    PendingInstall,
    /// An upgrade runs.
    PendingUpgrade,
    /// A rollback runs.
    PendingRollback,
    /// The release is being removed.
    Uninstalling,
    /// The release was removed, with its history kept.
    Uninstalled,
    /// A status that Fairlead does not know.
    Unknown,
}

impl ReleaseStatus {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "deployed" => ReleaseStatus::Deployed,
            "superseded" => ReleaseStatus::Superseded,
            "failed" => ReleaseStatus::Failed,
            "pending-install" => ReleaseStatus::PendingInstall,
            "pending-upgrade" => ReleaseStatus::PendingUpgrade,
            "pending-rollback" => ReleaseStatus::PendingRollback,
            "uninstalling" => ReleaseStatus::Uninstalling,
            "uninstalled" => ReleaseStatus::Uninstalled,
            _ => ReleaseStatus::Unknown,
        }
    }

    /// Name of the status, as Helm shows it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ReleaseStatus::Deployed => "deployed",
            ReleaseStatus::Superseded => "superseded",
            ReleaseStatus::Failed => "failed",
            ReleaseStatus::PendingInstall => "pending-install",
            ReleaseStatus::PendingUpgrade => "pending-upgrade",
            ReleaseStatus::PendingRollback => "pending-rollback",
            ReleaseStatus::Uninstalling => "uninstalling",
            ReleaseStatus::Uninstalled => "uninstalled",
            ReleaseStatus::Unknown => "unknown",
        }
    }

    /// Whether Helm refuses the next operation because of it.
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            ReleaseStatus::PendingInstall
                | ReleaseStatus::PendingUpgrade
                | ReleaseStatus::PendingRollback
        )
    }
}

/// One revision of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Name of the Secret.
    pub secret: String,
    /// Resource version of the Secret.
    pub resource_version: String,
    /// Name of the release.
    pub release: String,
    /// Number of the revision.
    pub number: u32,
    /// Status.
    pub status: ReleaseStatus,
    /// Run that made it, by its label. A rollback has the label of its target instead.
    pub run: Option<RunId>,
    /// Attempt of that run, by its label.
    pub attempt: Option<u32>,
    /// Bundle of that run, by its label.
    pub bundle: Option<String>,
    /// True if an earlier revision has the labels of the same attempt. Each attempt writes one revision, and Helm copies
    /// labels into revisions of others.
    pub has_copied_labels: bool,
    /// First digits of the spec, by the label: see [`crate::spec_label`].
    pub spec: Option<String>,
    /// Revision that a rollback returned to. Metadata does not hold it: see [`super::Record::complete`].
    pub rolled_back_to: Option<u32>,
}

impl Revision {
    /// Whether a run of Fairlead made it, by its labels.
    #[must_use]
    pub fn is_by_run(&self) -> bool {
        self.run.is_some() && !self.has_copied_labels
    }

    /// Reads the metadata of a Secret; `None` if it is no record of Helm.
    #[must_use]
    pub fn of_object(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |name: &str| Some(metadata.get(name)?.as_str()?.to_owned());
        let label = |name: &str| metadata.get("labels")?.get(name)?.as_str();
        let secret = text("name")?;
        if label("owner") != Some("helm") || !secret.starts_with(SECRET_TYPE_PREFIX) {
            return None;
        }
        Some(Revision {
            resource_version: text("resourceVersion")?,
            release: label("name")?.to_owned(),
            number: label("version")?.parse().ok()?,
            status: ReleaseStatus::parse(label("status")?),
            run: label(RUN_LABEL).and_then(|run| run.parse().ok()),
            attempt: label(ATTEMPT_LABEL).and_then(|attempt| attempt.parse().ok()),
            bundle: label(BUNDLE_LABEL).map(str::to_owned),
            has_copied_labels: false,
            spec: label(SPEC_LABEL).map(str::to_owned),
            rolled_back_to: None,
            secret,
        })
    }
}

/// Label selector of all records of a release.
#[must_use]
pub fn selector(release: &ReleaseName) -> String {
    format!("owner=helm,name={release}")
}

/// Revisions of one release, oldest first, of a list of Secrets or of their metadata.
#[must_use]
pub fn history(release: &ReleaseName, items: &[Value]) -> Vec<Revision> {
    let revisions = items.iter().filter_map(Revision::of_object);
    let mut revisions: Vec<_> = revisions
        .filter(|it| it.release == release.as_str())
        .collect();
    revisions.sort_by_key(|revision| revision.number);
    let mut attempts = HashSet::new();
    for revision in &mut revisions {
        let attempt = (revision.run.clone(), revision.attempt);
        revision.has_copied_labels = revision.run.is_some() && !attempts.insert(attempt);
    }
    revisions
}
