//! Git repositories as data.

use std::collections::BTreeMap;

use fairlead_api::resources::{Credentials, DeployKey, RepoKind, RepoPhase};
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
    /// Hash of the desired repository at that time; the state is void for any other.
    pub of: String,
    /// Time of the last phase change.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
}

/// The URL without secrets; `None` if it has none. A password is a secret, and over HTTP the user
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
