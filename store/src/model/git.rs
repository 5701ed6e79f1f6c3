//! Git repositories as data.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    Code, TenantId,
    resources::{
        AccessTokenSettings, Credentials, DeletionPolicy, DeployKey, GeneratedKey, RepoAccessToken,
        RepoDrift, RepoKind, RepoPhase, TemplateFile, ValueSource,
    },
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A configuration repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRepo {
    /// Clone URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Management of the repository.
    #[serde(default)]
    pub kind: RepoKind,
    /// In the format of `known_hosts`, several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
    /// By name; `steward` is the key of the cluster's agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deploy_keys: BTreeMap<String, DeployKey>,
    /// Group or project on its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name within the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_name: Option<String>,
    /// Reference to the credentials of the server's API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_secret_ref: Option<Credentials>,
    /// Declared files by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub template_files: BTreeMap<String, TemplateFile>,
    /// Variables of its CI, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ci_variables: BTreeMap<String, StoredVariable>,
    /// Access token that the hub makes and renews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<AccessTokenSettings>,
}

/// A CI variable with its encrypted value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredVariable {
    /// Encrypted value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Credential with the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueSource>,
    /// True if only protected branches get it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// True if it is hidden in logs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// True if references in it are not expanded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
}

/// Compile pipeline of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompilePipeline {
    /// True if the tenant's repository has it.
    #[serde(default)]
    pub enabled: bool,
    /// Its files by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pipeline_files: BTreeMap<String, TemplateFile>,
    /// Credential of the tenant for the hub's API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_token: Option<ValueSource>,
}

/// Last answer of the repository's server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoState {
    /// Current phase.
    pub phase: RepoPhase,
    /// Reason for the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Code of the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Hash of the desired repository at that time; the state is void for any other.
    pub of: String,
    /// Time of the last phase change.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// Last recorded try.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub tried: Option<OffsetDateTime>,
    /// Last corrected difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<RepoDrift>,
    /// Clone URL of the repository, once its server has provided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Names of the deploy keys that the hub has added.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deploy_keys: BTreeSet<String>,
    /// Public halves of the deploy keys that the hub has made, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub generated_keys: BTreeMap<String, GeneratedKey>,
    /// Hash of the files that its server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Ids of the blobs of declared files, by path. A file without its declaration is removed only
    /// while it has this id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub written_files: BTreeMap<String, String>,
    /// Names of the CI variables that the hub has added.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ci_variables: BTreeSet<String>,
    /// Access token as of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<RepoAccessToken>,
    /// Id of the current access token on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_id: Option<String>,
}

/// Host keys of a Git server that a person has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmedHostKeys {
    /// Name of the server in the hub's settings.
    pub id: String,
    /// In the format of `known_hosts`, several lines.
    pub keys: String,
    /// Time of the confirmation.
    #[serde(with = "time::serde::rfc3339")]
    pub confirmed: OffsetDateTime,
    /// Name of the caller.
    pub by: String,
}

/// Token for the API of a Git server, encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitCredential {
    /// `NAME`, or `TENANT/NAME`.
    pub id: String,
    /// Tenant that may use it; all tenants if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Name within the tenant or the hub.
    pub name: String,
    /// Encrypted token.
    pub sealed: String,
    /// Time of the last change.
    #[serde(with = "time::serde::rfc3339")]
    pub changed: OffsetDateTime,
    /// Name of the caller.
    pub by: String,
}

impl GitCredential {
    /// Id of a credential.
    #[must_use]
    pub fn id_of(tenant: Option<&TenantId>, name: &str) -> String {
        match tenant {
            Some(tenant) => format!("{tenant}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// Repository of a deleted tenant or cluster, until its server has archived or deleted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetiredRepository {
    /// Id of its owner, and the revision of the deletion.
    pub id: String,
    /// Id of the deleted tenant or cluster.
    pub owner: String,
    /// Clone URL.
    pub url: String,
    /// Reference to the credentials of the server's API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_secret_ref: Option<Credentials>,
    /// Tenant of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Encrypted token of the tenant's credential: a tenant takes its credentials along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_token: Option<String>,
    /// Id of the access token that the hub has made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_id: Option<String>,
    /// `Archive` or `Delete`.
    pub policy: DeletionPolicy,
    /// Time of the deletion.
    #[serde(with = "time::serde::rfc3339")]
    pub deleted: OffsetDateTime,
    /// Reason of the last failed try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last failed try.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub tried: Option<OffsetDateTime>,
}
