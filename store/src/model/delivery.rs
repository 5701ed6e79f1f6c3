//! Delivery: sources, bundles, and groups of clusters.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    BundleId, ClusterId, SourceId, TenantId,
    delivery::{ArtifactId, BundleFields, GitSource, SourceArtifact},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Number of generations of a bundle that a rollback may name.
pub const MAX_GENERATIONS: usize = 10;

/// A source of bundles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSource {
    /// Id of the source.
    pub id: SourceId,
    /// Tenant of the source and of its bundles.
    pub tenant: TenantId,
    /// The repository.
    pub git: GitSource,
    /// True: the repository is not polled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// True: a deleted folder deletes its bundle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prune: bool,
    /// Last accepted commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Artifacts of that commit, ordered by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<SourceArtifact>,
    /// Time of the last request for a poll, in milliseconds since 1970; 0 without any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requested: i64,
    /// Result of the last polls; `None` before the first one with this repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<SourcePoll>,
}

/// Result of the last polls of a source. Polls with the same result write nothing, so it has no time of the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourcePoll {
    /// Time of the first poll with this result.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// Sentence about a failure; `None` after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Newest request that a poll has answered, as in [`BundleSource::requested`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requested: i64,
}

/// True for the default, for serde.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A bundle with its newest content, and the names of its older contents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleRecord {
    /// Id of the bundle.
    pub id: BundleId,
    /// Targets are clusters of this tenant and of its sub-tenants.
    pub tenant: TenantId,
    /// Source of the content; `None` for uploaded content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Folder of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Origin of the content in a catalog; the hub makes such a bundle itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogOrigin>,
    /// Origin of the content in the settings of a GitOps tool; the hub makes such a bundle itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolOrigin>,
    /// True: nothing is released, corrected or retried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// True: the folder was deleted from its source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub orphaned: bool,
    /// True: the bundle is deleted once the clusters in `removals` have reported that its objects are gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Clusters in which the deployment is suspended.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub suspended_in: BTreeSet<ClusterId>,
    /// Tombstones: objects of the bundle in the cluster are deleted, up to this generation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub removals: BTreeMap<ClusterId, u64>,
    /// Options of the newest generation.
    pub fields: BundleFields,
    /// Generations, newest first, at most [`MAX_GENERATIONS`].
    pub generations: Vec<Generation>,
}

/// Catalog of a cluster, as content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogOrigin {
    /// The only cluster of the bundle.
    pub cluster: ClusterId,
    /// Version of the catalog in the newest generation.
    pub version: u64,
}

/// GitOps tool of a cluster, as content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOrigin {
    /// The only cluster of the bundle.
    pub cluster: ClusterId,
    /// Hash of settings, repository and version in the newest generation.
    pub inputs: String,
    /// False for an adopted tool: the bundle has the source of the catalog only.
    pub with_controllers: bool,
}

/// A generation of a bundle. Its content is stored by the digest of its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    /// Number; it never decreases.
    pub number: u64,
    /// Files.
    pub artifact: ArtifactId,
    /// Digest of the JSON of its options, in the form of an artifact's.
    pub options: ArtifactId,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Author: a person, or the source with its commit.
    pub by: String,
}

impl BundleRecord {
    /// A bundle without content.
    #[must_use]
    pub const fn new(id: BundleId, tenant: TenantId, fields: BundleFields) -> Self {
        BundleRecord {
            id,
            tenant,
            source: None,
            path: None,
            catalog: None,
            tool: None,
            suspended: false,
            orphaned: false,
            deleting: false,
            suspended_in: BTreeSet::new(),
            removals: BTreeMap::new(),
            fields,
            generations: Vec::new(),
        }
    }

    /// The newest generation.
    #[must_use]
    pub fn newest(&self) -> Option<&Generation> {
        self.generations.first()
    }

    /// Repeats the newest generation under a number of at least `floor`, above all others of the bundle.
    pub fn repeat_newest(&mut self, floor: u64, at: OffsetDateTime) {
        let Some(newest) = self.newest().cloned() else {
            return;
        };
        let number = floor.max(newest.number + 1);
        self.push(Generation { at, ..newest });
        if let Some(repeated) = self.generations.first_mut() {
            repeated.number = number;
        }
    }

    /// Adds a generation, numbered after the newest one, and forgets the oldest beyond the limit.
    pub fn push(&mut self, mut generation: Generation) -> u64 {
        let number = self.newest().map_or(0, |it| it.number) + 1;
        generation.number = number;
        self.generations.insert(0, generation);
        self.generations.truncate(MAX_GENERATIONS);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_numbers_never_decrease() {
        let id = |byte| ArtifactId::of_sha256(&[byte; 32]);
        let mut bundle = BundleRecord::new(
            "b-shop".parse().unwrap(),
            "t-acme".parse().unwrap(),
            BundleFields::default(),
        );
        for round in 0..12u8 {
            let number = bundle.push(Generation {
                number: 0,
                artifact: id(round),
                options: id(0),
                at: OffsetDateTime::UNIX_EPOCH,
                by: "anna".to_owned(),
            });
            assert_eq!(number, u64::from(round) + 1);
        }
        assert_eq!(bundle.generations.len(), MAX_GENERATIONS);
        assert_eq!(bundle.newest().unwrap().artifact, id(11));
        let json = serde_json::to_string(&bundle).unwrap();
        assert_eq!(serde_json::from_str::<BundleRecord>(&json).unwrap(), bundle);
    }
}
