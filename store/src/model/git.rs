//! Git repositories as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A configuration repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRepo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default)]
    pub kind: RepoKind,
    /// In the form of `known_hosts`, several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_keys: Option<String>,
    /// By name; `steward` is the one that the cluster's agent reads with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deploy_keys: BTreeMap<String, DeployKey>,
    /// Where on its server it is, the group or project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it is called there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_name: Option<String>,
    /// What opens that server's API, by its name and never by its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_secret_ref: Option<Credentials>,
}

/// Who looks after a repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoKind {
    #[default]
    Auto,
    Unmanaged,
}

/// A public key that may read, or write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployKey {
    /// `<type> <base64>`, with a final newline where it came with one.
    pub key: String,
    #[serde(default)]
    pub write_access: bool,
}

/// What the server of a repository has said of it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoState {
    pub phase: RepoPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names the repository as it was wanted then: of another one this says nothing.
    pub of: String,
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoPhase {
    /// It is there, as it is wanted.
    Created,
    /// Its server will not have it so.
    Failed,
    /// Nobody could tell.
    Unknown,
}

impl RepoPhase {
    pub const ALL: [RepoPhase; 3] = [RepoPhase::Created, RepoPhase::Failed, RepoPhase::Unknown];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RepoPhase::Created => "created",
            RepoPhase::Failed => "failed",
            RepoPhase::Unknown => "unknown",
        }
    }
}

/// A URL without what opens the repository, if there is that in it: a password, and over HTTP a user as well, which is a token
/// as often as not. Whoever sees a tenant or a cluster sees its URLs.
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

/// A reference to credentials, never the credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credentials {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What becomes of what is there already when the cluster's repository is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CreationPolicy {
    Create,
    Adopt,
}

/// What becomes of its repository when the cluster is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletionPolicy {
    Delete,
    Retain,
    Archive,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_a_repository_is_found_in_its_url_and_who_asks_for_it_over_ssh_is_not_that() {
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
