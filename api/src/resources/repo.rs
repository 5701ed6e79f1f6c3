//! Git repositories and other external resources of tenants and clusters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::repo_content::{AccessTokenSettings, CiVariable, RepoAccessToken, TemplateFile};
use crate::Code;

/// A repository in the document of a tenant or cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GitRepo)]
pub struct RepoDocument {
    /// Clone URL. That of a managed repository has a group and a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Management of the repository. Not changed by PATCH.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RepoKind>,
    /// Host keys in the format of `known_hosts`, several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
    /// Group or project on its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name within the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_name: Option<String>,
    /// Reference to the credentials of the server's API, never their value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_secret_ref: Option<Credentials>,
    /// Public key of the agent, `<type> <base64>`; the deploy key named `steward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_key: Option<String>,
    /// Further deploy keys, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deploy_keys: BTreeMap<String, DeployKey>,
    /// Declared files by path, on the default branch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub template_files: BTreeMap<String, TemplateFile>,
    /// Variables of the repository's CI, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ci_variables: BTreeMap<String, CiVariable>,
    /// Access token that the hub makes and renews; the credential `OWNER.access-token` of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<AccessTokenSettings>,
    /// Last answer of the repository's server about the desired repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub state: Option<RepoStateDocument>,
}

/// Repository in the document of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TenantGitRepo)]
pub struct TenantRepoDocument {
    /// The repository.
    #[serde(flatten)]
    pub repo: RepoDocument,
    /// Revision to compile from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// Status of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RepoState)]
pub struct RepoStateDocument {
    /// Phase of the repository.
    pub phase: RepoPhase,
    /// Code of the reason, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub code: Option<Code>,
    /// Reason for the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Start of the phase.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<OffsetDateTime>,
    /// Last recorded try of the hub. Successful checks without a difference are not recorded.
    #[serde(
        default,
        rename = "lastTry",
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_try: Option<OffsetDateTime>,
    /// Last difference on the server that the hub corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<RepoDrift>,
    /// Access token of the repository.
    #[serde(
        rename = "accessToken",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub access_token: Option<RepoAccessToken>,
    /// Public halves of the deploy keys that the hub has made, by name.
    #[serde(
        rename = "generatedKeys",
        default,
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub generated_keys: BTreeMap<String, GeneratedKey>,
}

/// Differences between a repository and its desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepoDrift {
    /// Time of the correction.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Corrected parts, like `description` and `deploy key steward`.
    pub corrected: Vec<String>,
}

/// Repository of a deleted tenant or cluster, until its Git server has archived or deleted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RetiredRepository)]
pub struct RetiredRepoDocument {
    /// Id of the entry.
    pub id: String,
    /// Id of the deleted tenant or cluster.
    pub owner: String,
    /// Clone URL.
    pub url: String,
    /// `Archive` or `Delete`.
    pub policy: DeletionPolicy,
    /// Time of the deletion of its owner.
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
    pub last_try: Option<OffsetDateTime>,
}

/// Response to `GET /v1/retired-repositories`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetiredRepositories {
    /// In the order of their ids.
    pub items: Vec<RetiredRepoDocument>,
}

/// A Git server of the hub's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitServerStatus {
    /// Name in the settings.
    pub name: String,
    /// Origin of its host keys.
    pub source: HostKeySource,
    /// Host keys that repositories without own ones get.
    pub host_keys: Vec<HostKey>,
}

/// Response to `GET /v1/git-servers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitServerList {
    /// In the order of the settings.
    pub items: Vec<GitServerStatus>,
}

/// Origin of host keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostKeySource {
    /// The hub's settings.
    Settings,
    /// Read from the server, and confirmed by a person.
    Confirmed,
    /// None: read and confirm them.
    None,
}

/// A host key of an SSH server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostKey {
    /// Type like `ssh-ed25519`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Fingerprint as `ssh-keygen -l` prints it, like `SHA256:...`.
    pub fingerprint: String,
}

/// Response to `GET /v1/git-servers/{name}/host-keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScannedHostKeys {
    /// Keys that the server shows now, unconfirmed.
    pub found: Vec<HostKey>,
}

/// Body of `POST /v1/git-servers/{name}/host-keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmHostKeys {
    /// Fingerprints that a person has compared with those of the server's operator.
    pub fingerprints: Vec<String>,
}

/// Management of a repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RepoKind {
    /// Managed by the hub.
    #[default]
    Auto,
    /// Managed by its owner; the hub does not change it.
    Unmanaged,
}

/// A public key with read or write access.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployKey {
    /// `<type> <base64>`; a final newline is preserved. Missing exactly with `generate`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// True if the key may write.
    #[serde(default)]
    pub write_access: bool,
    /// True if the hub makes the key (Ed25519). Its private half is the credential `OWNER.deploy-key.NAME` of the
    /// tenant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generate: bool,
}

/// Public half of a deploy key that the hub has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GeneratedKey {
    /// `<type> <base64>`
    pub key: String,
    /// Fingerprint as `ssh-keygen -l` prints it, like `SHA256:...`.
    pub fingerprint: String,
}

/// Phase of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RepoPhase {
    /// Exists as desired.
    Created,
    /// Requested from its server for the first time, without an answer yet.
    Creating,
    /// Rejected by its server.
    Failed,
    /// Not known.
    Unknown,
}

impl RepoPhase {
    /// All phases.
    pub const ALL: [RepoPhase; 4] = [
        RepoPhase::Created,
        RepoPhase::Creating,
        RepoPhase::Failed,
        RepoPhase::Unknown,
    ];

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RepoPhase::Created => "created",
            RepoPhase::Creating => "creating",
            RepoPhase::Failed => "failed",
            RepoPhase::Unknown => "unknown",
        }
    }
}

/// Reference to credentials, never the credentials themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credentials {
    /// Name of the secret.
    #[schema(min_length = 1)]
    pub name: String,
    /// Namespace of the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Direct address of a cluster's API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeApi {
    /// `https://host[:port]`
    pub endpoint: String,
    /// Reference to credentials for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// Handling of an existing repository when the cluster's repository is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum CreationPolicy {
    /// Fail if the repository exists.
    Create,
    /// Take over an existing repository.
    Adopt,
}

/// Handling of the repository when the cluster is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeletionPolicy {
    /// Delete the repository.
    Delete,
    /// Keep the repository unchanged.
    Retain,
    /// Archive the repository.
    Archive,
}

/// URL of a repository without secrets; `None` if it has none. A password is a secret, and over HTTP the user
/// as well, which is often a token. URLs are visible to everyone with access to the tenant or
/// cluster.
#[must_use]
pub fn without_secret(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let (user_info, host) = authority.rsplit_once('@')?;
    let user = match user_info.split_once(':') {
        _ if scheme.to_ascii_lowercase().starts_with("http") => "",
        Some((user, _)) => user,
        None => return None,
    };
    let at = if user.is_empty() { "" } else { "@" };
    Some(format!("{scheme}://{user}{at}{host}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_urls_are_found_and_ssh_users_are_not_credentials() {
        for (url, without) in [
            ("ssh://git@git.example/a/b.git", None),
            ("git@git.example:a/b.git", None),
            ("https://git.example/a/b.git?x=y@z:1", None),
            (
                "ssh://git:pw@git.example:22/a/b.git",
                Some("ssh://git@git.example:22/a/b.git"),
            ),
            (
                "https://me:p%40@w@git.example/a",
                Some("https://git.example/a"),
            ),
            ("HTTPS://glpat-123@git.example", Some("HTTPS://git.example")),
        ] {
            assert_eq!(without_secret(url).as_deref(), without, "{url}");
        }
    }
}
