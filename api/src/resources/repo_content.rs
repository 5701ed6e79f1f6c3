//! Declared content of Git repositories.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ClusterId;

/// A file of a repository as declared: its content, or `{"delete": true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum TemplateFile {
    /// Content of the file.
    Content(String),
    /// The file does not exist.
    Deleted(DeletedFile),
}

impl TemplateFile {
    /// Marker of a file that must not exist.
    pub const DELETED: TemplateFile = TemplateFile::Deleted(DeletedFile { delete: true });
}

/// Marker of a file that is removed from the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletedFile {
    /// Always true.
    #[schema(extensions(("const" = json!(true))))]
    pub delete: bool,
}

/// A variable of the repository's CI. No answer contains its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CiVariable {
    /// Value, stored encrypted. A PUT without `value` and `valueFrom` keeps the stored one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(write_only, min_length = 1, max_length = 10000)]
    pub value: Option<String>,
    /// Credential of the tenant with the value, instead of `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueSource>,
    /// True if only protected branches and tags get the variable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// True if the value is hidden in logs; a secret where the server has no masked variables.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// True if the server does not expand references in the value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// Changes with `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub digest: Option<String>,
}

/// A credential of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValueSource {
    /// File in the tenant's folder of the hub's credentials, or Secret with the tenant's label.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Key of the Secret; `token` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Compile pipeline of a tenant: files and CI variables of its repository, once a cluster has
/// `enableCompilation`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CompilePipeline)]
pub struct CompilePipelineDocument {
    /// True if the repository has the pipeline.
    #[serde(default)]
    pub enabled: bool,
    /// Files of the pipeline by path, like `.gitlab-ci.yml`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pipeline_files: BTreeMap<String, TemplateFile>,
    /// Credential of the tenant for the variable `COMMODORE_API_TOKEN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_token: Option<ValueSource>,
    /// Clusters that the pipeline compiles, as written last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(read_only)]
    pub clusters: Vec<ClusterId>,
}

/// Access token of a repository for programs, which the hub makes, stores and renews. GitLab alone
/// has such tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = AccessToken)]
pub struct AccessTokenSettings {
    /// `reporter`, `developer` or `maintainer`.
    pub role: String,
    /// Rights like `write_repository`.
    pub scopes: BTreeSet<String>,
    /// Life of each token; it is replaced with a third left.
    #[schema(minimum = 7, maximum = 365)]
    pub lifetime_days: u16,
}

impl Default for AccessTokenSettings {
    fn default() -> Self {
        AccessTokenSettings {
            role: "maintainer".to_owned(),
            scopes: ["write_repository".to_owned()].into(),
            lifetime_days: 90,
        }
    }
}

/// Status of the access token of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoAccessToken {
    /// Whether the server has the token.
    pub state: AccessTokenState,
    /// Day of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// State of an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessTokenState {
    /// Made and stored.
    Valid,
    /// The server has no access tokens of repositories.
    Unsupported,
}
