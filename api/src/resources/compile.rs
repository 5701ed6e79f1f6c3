//! Commodore's report of the last compilation of a cluster's catalog, with the field names of
//! Lieutenant's API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

/// Report of a compilation; each report replaces the previous one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompileMeta {
    /// Build information of Commodore.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commodore_build_info: BTreeMap<String, String>,
    /// Version of the global repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<SourceVersion>,
    /// Component instances by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, InstanceVersion>,
    /// Time of the compilation.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_compile: Option<OffsetDateTime>,
    /// Packages by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, SourceVersion>,
    /// Version of the tenant's repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<SourceVersion>,
}

/// A version of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceVersion {
    /// URL of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Path within the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Branch or tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Commit hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_sha: Option<String>,
}

/// An instance of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceVersion {
    /// Name of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Version of its source.
    #[serde(flatten)]
    pub source: SourceVersion,
}
