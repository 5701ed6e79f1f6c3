//! Bundles as the hub shows them, and their content as it is uploaded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{
    bundle::{Bundle, BundleFields},
    spec::ArtifactId,
};
use crate::{ClusterId, SourceId, TenantId};

/// A bundle with its kept generations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// The bundle.
    #[serde(flatten)]
    pub bundle: Bundle,
    /// True: the bundle is deleted once its objects are gone in all clusters of `removals`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Clusters in which the deployment is suspended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspended_in: Vec<ClusterId>,
    /// Clusters in which the objects are deleted, up to this generation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, u64>)]
    pub removals: BTreeMap<ClusterId, u64>,
    /// Kept generations, newest first; not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<BundleGeneration>,
}

/// A generation to which a bundle can be rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BundleGeneration {
    /// Number.
    pub number: u64,
    /// Content.
    pub artifact: ArtifactId,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub at: OffsetDateTime,
    /// Author: a person, or the source with its commit.
    pub by: String,
}

/// Body of `PUT /v1/bundles/{bundleId}`: a new state of the bundle. Unknown fields are rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PutBundle {
    /// Targets are clusters of this tenant and of its sub-tenants.
    pub tenant: TenantId,
    /// Source of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Folder of the source; required with `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Uploaded content; required without `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
    /// True: nothing is released, corrected or retried. Missing: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// Options.
    #[serde(flatten)]
    pub fields: BundleFields,
}

/// Body of `POST /v1/bundles/{bundleId}/rollback`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Generation with the content; default: the one before the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub to: Option<u64>,
}

/// Uploaded content: answer to `POST /v1/artifacts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadedArtifact {
    /// Name of the content, for the field `artifact` of a bundle. Without a bundle the content is kept for an hour.
    pub id: ArtifactId,
    /// Number of files.
    pub files: usize,
    /// Size of the packed content in bytes.
    pub packed_bytes: u64,
    /// Size of all files in bytes.
    pub unpacked_bytes: u64,
    /// True: the folder is a Helm chart.
    pub chart: bool,
    /// Options in `fairlead.yaml`; missing without that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<BundleFields>,
}

/// Deployment that a change takes away, in `details.removed` of `FL-6105`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedDeployment {
    /// The bundle.
    pub bundle: crate::BundleId,
    /// The cluster.
    pub cluster: ClusterId,
    /// True: its objects are deleted. False: they stay.
    pub deletes: bool,
}

impl RemovedDeployment {
    /// Reads the list and the value of `confirm` from the details of a failure; `None` for details of another form.
    #[must_use]
    pub fn of_details(details: &Value) -> Option<(Vec<Self>, super::PlanHash)> {
        let removed = Vec::deserialize(details.get("removed")?).ok()?;
        let confirm = super::PlanHash::deserialize(details.get("confirm")?).ok()?;
        Some((removed, confirm))
    }
}
