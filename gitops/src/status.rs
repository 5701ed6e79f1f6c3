//! State of the agent's GitOps key, as its facts and its log report it.

use fairlead_api::{
    Code,
    gitops::{FoundTool, GitOpsTool, Repair, SshKeyType},
};
use serde_json::{Value, json};

use crate::health::Health;

/// Maximum length of a message of the tool in a cause, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// Step of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The key is in use, and no rotation runs.
    Settled,
    /// The next key waits for the Git server.
    Registering,
    /// The tool has the next key, and has not synced with it yet.
    Proving,
    /// The key cannot be made or used.
    Stopped,
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Phase::Settled => "settled",
            Phase::Registering => "registering",
            Phase::Proving => "proving",
            Phase::Stopped => "stopped",
        }
    }
}

/// Reason why the catalog is not synced, or the key not rotated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A Secret without the agent's label.
    #[error("Secret {0} exists and was not made by the agent")]
    ForeignSecret(String),
    /// A tool that others have installed.
    #[error("{0}")]
    ToolFound(String),
    /// A missing right.
    #[error("{0}")]
    Forbidden(String),
    /// The tool is not installed.
    #[error("{0} does not exist")]
    ToolAbsent(String),
    /// No URL.
    #[error("the cluster has no repository")]
    NoRepository,
    /// A URL of another scheme.
    #[error("the URL of the repository does not begin with ssh://")]
    NotSsh,
    /// Strict checks of host keys need some.
    #[error("the repository has no host keys")]
    NoHostKeys,
    /// The Git server has another host key.
    #[error("{0}")]
    HostKeyRefused(String),
    /// Another failure of the tool.
    #[error("{0}")]
    SyncFailed(String),
    /// The next key waits.
    #[error("the Git server has not confirmed the next key {0}")]
    NotRegistered(String),
    /// An annotation pauses repairs, and the host keys differ.
    #[error("{0} has the annotation that pauses repairs; the host keys differ")]
    RepairPaused(String),
    /// The old key is in use again.
    #[error("the tool could not sync with the new key: {0}")]
    RotationFailed(String),
    /// No answer of the API server or of the hub.
    #[error("{0}")]
    Unreachable(String),
}

impl Problem {
    /// Code of the problem.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Problem::ForeignSecret(_) => Code::GitOpsForeignSecret,
            Problem::ToolFound(_) => Code::GitOpsToolFound,
            Problem::Forbidden(_) => Code::GitOpsForbidden,
            Problem::ToolAbsent(_) => Code::GitOpsToolAbsent,
            Problem::NoRepository | Problem::NotSsh | Problem::NoHostKeys => {
                Code::GitOpsRepositoryUnusable
            }
            Problem::HostKeyRefused(_) => Code::GitOpsHostKeyRefused,
            Problem::SyncFailed(_) => Code::GitOpsSyncFailed,
            Problem::NotRegistered(_) => Code::GitOpsKeyNotRegistered,
            Problem::RepairPaused(_) => Code::GitOpsRepairPaused,
            Problem::RotationFailed(_) => Code::GitOpsRotationFailed,
            Problem::Unreachable(_) => Code::GitOpsUnreachable,
        }
    }

    /// Problem of a failed sync, from the message of the tool.
    pub(crate) fn of_sync(message: &str) -> Self {
        let message = shortened(message);
        // Texts of Go's `knownhosts`, which both tools use.
        let is_host_key = ["knownhosts: ", "host key mismatch", "hostkey"];
        if is_host_key.iter().any(|part| message.contains(part)) {
            Problem::HostKeyRefused(message)
        } else {
            Problem::SyncFailed(message)
        }
    }
}

/// Message on one line, truncated.
pub(crate) fn shortened(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(MAX_MESSAGE_CHARS).collect()
}

/// State of the GitOps key of a cluster. It has no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitOpsStatus {
    pub(crate) tool: GitOpsTool,
    pub(crate) phase: Phase,
    pub(crate) problem: Option<Problem>,
    pub(crate) key_type: SshKeyType,
    /// Fingerprint of the key in the Secret of the tool.
    pub(crate) key: Option<String>,
    /// Fingerprint of the key of a running rotation.
    pub(crate) next_key: Option<String>,
    /// Health of the tool; none if it is not installed, or cannot be read.
    pub(crate) health: Option<Health>,
    /// Last repairs of the tool's objects, the newest last.
    pub(crate) repairs: Vec<Repair>,
    /// Tool in the cluster, if the hub installs one.
    pub(crate) found: Option<FoundTool>,
}

impl GitOpsStatus {
    /// Problem, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Value of the fact `gitops`.
    #[must_use]
    pub fn to_fact(&self) -> Value {
        let mut fact = json!({
            "tool": self.tool.as_str(),
            "state": self.phase.as_str(),
            "keyType": self.key_type.as_str(),
        });
        let problem = self.problem.as_ref();
        let more = [
            ("key", self.key.clone()),
            ("nextKey", self.next_key.clone()),
            ("code", problem.map(|it| it.code().to_string())),
            ("cause", problem.map(ToString::to_string)),
        ];
        if let Value::Object(fact) = &mut fact {
            for (name, value) in more {
                if let Some(value) = value {
                    fact.insert(name.to_owned(), value.into());
                }
            }
            if let Some(health) = &self.health {
                fact.insert("health".to_owned(), health.to_fact());
            }
            if !self.repairs.is_empty() {
                let repairs = serde_json::to_value(&self.repairs);
                fact.insert("repairs".to_owned(), repairs.unwrap_or_default());
            }
            if let Some(found) = self.found.as_ref().map(|it| json!(it)) {
                fact.insert(FoundTool::FIELD.to_owned(), found);
            }
        }
        fact
    }

    /// True while a rotation runs or a problem may end soon.
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.phase, Phase::Registering | Phase::Proving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_host_key_has_a_code_of_its_own() {
        let message = "failed to checkout: ssh: handshake failed:\n knownhosts: key mismatch";
        let problem = Problem::of_sync(message);
        assert_eq!(problem.code(), Code::GitOpsHostKeyRefused);
        assert_eq!(
            problem.to_string(),
            "failed to checkout: ssh: handshake failed: knownhosts: key mismatch"
        );
        let other = Problem::of_sync("unable to authenticate");
        assert_eq!(other.code(), Code::GitOpsSyncFailed);
    }

    #[test]
    fn fact_names_keys_by_fingerprint_and_the_problem_by_code() {
        let status = GitOpsStatus {
            tool: GitOpsTool::Flux,
            phase: Phase::Registering,
            problem: Some(Problem::NotRegistered("SHA256:b".to_owned())),
            key_type: SshKeyType::Rsa,
            key: Some("SHA256:a".to_owned()),
            next_key: Some("SHA256:b".to_owned()),
            health: Some(Health::default()),
            repairs: vec![Repair {
                at: time::OffsetDateTime::UNIX_EPOCH,
                object: "Deployment flux-system/source-controller".to_owned(),
                reason: "Repaired".to_owned(),
                fields: Vec::new(),
                manager: None,
            }],
            found: None,
        };
        assert_eq!(
            status.to_fact(),
            json!({
                "tool": "flux", "state": "registering", "keyType": "rsa", "key": "SHA256:a", "nextKey": "SHA256:b",
                "code": "FL-6807", "cause": "the Git server has not confirmed the next key SHA256:b",
                "health": { "ready": true },
                "repairs": [{
                    "at": "1970-01-01T00:00:00Z", "object": "Deployment flux-system/source-controller", "reason": "Repaired",
                }],
            })
        );
        assert!(status.is_moving());
    }
}
