//! Sources: places that content of bundles comes from.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::spec::ArtifactId;
use crate::{SourceId, TenantId, resources::Credentials};

/// A Git repository with folders that become bundles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Id of the source.
    pub id: SourceId,
    /// Tenant of the source and of its bundles.
    pub tenant: TenantId,
    /// The repository.
    pub git: GitSource,
    /// True: the repository is not polled.
    #[serde(default)]
    pub suspended: bool,
    /// True: a deleted folder deletes its bundle. Otherwise the bundle becomes orphaned.
    #[serde(default)]
    pub prune: bool,
    /// Last accepted commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub commit: Option<String>,
    /// Artifacts of that commit, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(read_only)]
    pub artifacts: Vec<SourceArtifact>,
    /// First poll with the present result, which is this commit or this reason. Later polls with the same result do not change it.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime, read_only)]
    pub since: Option<OffsetDateTime>,
    /// True: a new or changed repository, or a request (`sync`, webhook), waits for its poll.
    #[serde(default)]
    #[schema(read_only)]
    pub syncing: bool,
    /// Reason of the last failure; missing after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub reason: Option<String>,
}

/// A source to create, or to replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutSource {
    /// Tenant of the source and of its bundles; it stays when a source is replaced.
    pub tenant: TenantId,
    /// The repository.
    pub git: GitSource,
    /// True: the repository is not polled.
    #[serde(default)]
    pub suspended: bool,
    /// True: a deleted folder deletes its bundle. Otherwise the bundle becomes orphaned.
    #[serde(default)]
    pub prune: bool,
}

/// Content of one folder of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceArtifact {
    /// Path of the folder.
    pub path: String,
    /// Its content.
    pub artifact: ArtifactId,
}

/// Reference to folders of a Git repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitSource {
    /// URL: `https://`, `ssh://` or `user@host:path`; `http://` without credentials.
    pub url: String,
    /// Branch, tag, range of semantic versions (`semver:1.x`), or commit.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Folders; each becomes a bundle.
    pub paths: Vec<String>,
    /// Reference to a key or a token, never its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Host keys in the format of `known_hosts`, for SSH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
    /// Keys in the format of `allowed_signers`; with them unsigned commits are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
}
