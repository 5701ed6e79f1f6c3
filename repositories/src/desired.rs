//! Desired state of one repository, and the hub's knowledge of its earlier state.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use fairlead_api::{
    ClusterId, TenantId,
    resources::{
        AccessTokenSettings, CreationPolicy, Credentials, DeployKey, GeneratedKey, ValueSource,
    },
};
use serde::Serialize;

/// Owner of a repository's content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoOwner {
    /// Owner of the shared configuration of its clusters.
    Tenant(TenantId),
    /// Owner of its compiled catalog.
    Cluster(ClusterId),
}

impl RepoOwner {
    /// Id of the tenant or cluster.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            RepoOwner::Tenant(id) => id.as_str(),
            RepoOwner::Cluster(id) => id.as_str(),
        }
    }
}

impl fmt::Display for RepoOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A repository that a Git server is to provide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredRepo {
    /// Owner of the repository.
    pub owner: RepoOwner,
    /// Display name of the owner, for the description.
    pub title: String,
    /// `None` if the server chooses it by `path` and `name`.
    pub url: Option<String>,
    /// Its group or project.
    pub path: Option<String>,
    /// Its name within the group.
    pub name: Option<String>,
    /// Credentials for the server's API.
    pub api_secret: Option<Credentials>,
    /// Complete list of deploy keys; `steward` is the agent's.
    pub deploy_keys: BTreeMap<String, DeployKey>,
    /// Whether an existing repository may be adopted. Defaults to `Create`.
    pub creation_policy: Option<CreationPolicy>,
    /// Files by path, on the default branch. Not part of the repository's identity.
    #[serde(skip)]
    pub files: BTreeMap<String, DesiredFile>,
    /// Variables of its CI by name. Not part of the repository's identity.
    #[serde(skip)]
    pub ci_variables: BTreeMap<String, DesiredVariable>,
    /// Tenant of the owner. Variables may have its credentials only.
    #[serde(skip)]
    pub tenant: TenantId,
    /// Access token that the hub makes and renews. Not part of the repository's identity.
    #[serde(skip)]
    pub access_token: Option<AccessTokenSettings>,
    /// Clusters that a tenant's pipeline compiles.
    #[serde(skip)]
    pub compiled_clusters: BTreeSet<ClusterId>,
}

/// A variable of a repository's CI, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredVariable {
    /// Origin of the value.
    pub source: VariableSource,
    /// Changes with the content of a credential that the hub makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// True if only protected branches get it.
    pub protected: bool,
    /// True if it is hidden in logs.
    pub masked: bool,
    /// True if references in it are not expanded.
    pub raw: bool,
}

/// Origin of a variable's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableSource {
    /// The record has no value.
    None,
    /// A value that is no secret.
    Text(String),
    /// A value that only the hub can open; it is among the [`RepoSecrets`](crate::RepoSecrets).
    Sealed(String),
    /// A credential of the tenant.
    Credential(ValueSource),
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DesiredFile {
    /// The file has this content, also in place of another author's.
    Declared(String),
    /// The file does not exist, also if the hub has not written it.
    Deleted,
    /// The file exists. Content that the hub did not write stays.
    Content {
        /// Content of a new file.
        content: String,
        /// Contents of the hub that are replaced; all others stay.
        earlier: Vec<String>,
    },
    /// The file is removed if it has one of these contents.
    Absent {
        /// Contents of the hub.
        earlier: Vec<String>,
    },
}

/// Result of earlier calls for a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownRepo {
    /// Clone URL of the repository, if the server has provided it before.
    pub url: Option<String>,
    /// Names of deploy keys that the hub has added.
    pub deploy_keys: BTreeSet<String>,
    /// Public halves of the deploy keys that the hub has made, by name.
    pub generated_keys: BTreeMap<String, GeneratedKey>,
    /// Ids of the blobs of declared files, by path.
    pub files: BTreeMap<String, String>,
    /// Names of CI variables that the hub has added.
    pub ci_variables: BTreeSet<String>,
    /// Id of the current access token.
    pub access_token: Option<String>,
}

/// Name of the credential with the access token of a repository.
#[must_use]
pub fn access_token_name(owner: &RepoOwner) -> String {
    format!("{owner}.access-token")
}

/// Name of the credential with the private half of a generated deploy key.
#[must_use]
pub fn deploy_key_name(owner: &RepoOwner, key: &str) -> String {
    format!("{owner}.deploy-key.{key}")
}

/// An access token of a repository, as its server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedAccessToken {
    /// The server has none for repositories.
    Unsupported,
    /// It was not made or not stored; [`ReportedRepo::unmet`](crate::ReportedRepo::unmet) has the reason.
    Failed,
    /// The token is stored.
    Valid {
        /// Id on the server.
        id: String,
        /// Day of its end.
        expires: String,
    },
}

/// A repository whose owner was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredRepo {
    /// Deleted owner.
    pub owner: RepoOwner,
    /// Clone URL.
    pub url: String,
    /// Credentials for the server's API.
    pub api_secret: Option<Credentials>,
    /// True if the hub has made an access token for it.
    pub has_access_token: bool,
    /// Change on the server.
    pub retirement: Retirement,
}

/// End of a repository on its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retirement {
    /// The repository becomes read-only.
    Archive,
    /// The repository is deleted.
    Delete,
}
