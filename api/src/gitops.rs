//! GitOps tool of a cluster: its settings, and the public halves of the SSH keys with which it reads the catalog. The
//! agent makes the keys in the cluster; private halves never leave it.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

mod install;

pub use install::{
    CommitVerification, DesiredTool, FoundState, FoundTool, ToolInstallation, ToolProxy, VerifyMode,
};

/// Path to which an agent posts its [`KeyReport`], on a session with identity.
pub const KEYS_PATH: &str = "/agent/v1/gitops/keys";
/// Limit of a [`KeyReport`], in bytes.
pub const MAX_KEY_REPORT_BYTES: usize = 16 * 1024;
/// Name of the deploy key in use, among the deploy keys of the cluster's repository.
pub const CURRENT_KEY_NAME: &str = "steward";
/// Name of the deploy key that a rotation brings in.
pub const NEXT_KEY_NAME: &str = "steward-next";

/// Secret in the namespace of deliveries with the last repairs of the tool.
pub const REPAIRS_SECRET: &str = "gitops-repairs";
/// Field of the Secret with a list of [`Repair`] in JSON.
pub const REPAIRS_FIELD: &str = "repairs";
/// Repairs that are kept.
pub const MAX_REPAIRS: usize = 10;

/// A repair of one object of the tool, as the fact `gitops` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// Time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Kind, namespace and name, like `Deployment flux-system/source-controller`.
    pub object: String,
    /// `Repaired` or `RolledBack`.
    pub reason: String,
    /// Changed fields, at most five; none of an object that was missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Field manager of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

/// Tool that applies the catalog in the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitOpsTool {
    /// No tool: the agent makes no key.
    #[default]
    None,
    /// Flux.
    Flux,
    /// Argo CD.
    Argocd,
}

impl GitOpsTool {
    /// Name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            GitOpsTool::None => "none",
            GitOpsTool::Flux => "flux",
            GitOpsTool::Argocd => "argocd",
        }
    }

    /// True without a tool.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == GitOpsTool::None
    }
}

/// Type of an SSH key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SshKeyType {
    /// Ed25519.
    #[default]
    Ed25519,
    /// RSA with 4096 bits, for Git servers without Ed25519.
    Rsa,
}

impl SshKeyType {
    /// Name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SshKeyType::Ed25519 => "ed25519",
            SshKeyType::Rsa => "rsa",
        }
    }

    /// First word of a public key of this type (RFC 4253, RFC 8709).
    #[must_use]
    pub const fn algorithm(self) -> &'static str {
        match self {
            SshKeyType::Ed25519 => "ssh-ed25519",
            SshKeyType::Rsa => "ssh-rsa",
        }
    }
}

/// Settings of the GitOps tool; unset fields come from the tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GitOpsSettings {
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<GitOpsTool>,
    /// Type of the SSH key. Another type rotates the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_type: Option<SshKeyType>,
    /// Number of requested rotations. It adds to that of the tenant; another sum rotates the key.
    #[serde(skip_serializing_if = "is_zero")]
    pub rotation: u32,
    /// Fingerprint (`SHA256:...`) of a key that an operator has registered at the Git server of an unmanaged
    /// repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^SHA256:[A-Za-z0-9+/]{43}$")]
    pub confirmed_key: Option<String>,
    /// True: the hub installs the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<bool>,
    /// True: a tool that exists already is taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopt: Option<bool>,
    /// Manifests and objects of a tool that the hub installs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installation: Option<ToolInstallation>,
    /// Keys of commits that the tool applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<CommitVerification>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature of serde")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl GitOpsSettings {
    /// Effective settings of a cluster with those of its tenant's template.
    #[must_use]
    pub fn over(own: Option<&Self>, of_template: Option<&Self>) -> GitOpsConfig {
        let both = [own, of_template].into_iter().flatten();
        GitOpsConfig {
            tool: both.clone().find_map(|it| it.tool).unwrap_or_default(),
            key_type: both.clone().find_map(|it| it.key_type).unwrap_or_default(),
            rotation: both
                .clone()
                .fold(0, |sum, it| it.rotation.wrapping_add(sum)),
            confirmed_key: own.and_then(|it| it.confirmed_key.clone()),
            install: both.clone().find_map(|it| it.install).unwrap_or_default(),
            adopt: both.clone().find_map(|it| it.adopt).unwrap_or_default(),
            keys: AgentKeys::default(),
            registered: false,
        }
    }
}

/// Desired state of the tool, in the configuration of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitOpsConfig {
    /// The tool.
    pub tool: GitOpsTool,
    /// Type of the SSH key.
    pub key_type: SshKeyType,
    /// Number of the rotation that the key belongs to.
    pub rotation: u32,
    /// Fingerprint of a key that an operator has registered by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_key: Option<String>,
    /// True: the hub installs the tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub install: bool,
    /// True: a tool that exists already is taken over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
    /// Deploy keys of the agent in the hub's record.
    pub keys: AgentKeys,
    /// True if the Git server has reported the keys of the record as registered.
    pub registered: bool,
}

impl GitOpsConfig {
    /// True without a tool: nothing is sent to the agent.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.tool.is_none()
    }
}

/// Public keys of an agent, `<type> <base64>` each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentKeys {
    /// Key in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Key of a running rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Body of `POST /agent/v1/gitops/keys`: a compare-and-swap of the agent's deploy keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReport {
    /// Keys of the record that the agent has based its decision on. With others nothing changes, so that an outdated
    /// decision withdraws no key.
    pub expected: AgentKeys,
    /// New keys of the record.
    pub keys: AgentKeys,
}

/// Answer to a [`KeyReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReceipt {
    /// Keys of the record now.
    pub keys: AgentKeys,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_from_the_cluster_then_from_its_tenant() {
        let of_tenant = GitOpsSettings {
            tool: Some(GitOpsTool::Flux),
            key_type: Some(SshKeyType::Rsa),
            rotation: 2,
            confirmed_key: Some("of no use".to_owned()),
            ..GitOpsSettings::default()
        };
        let own = GitOpsSettings {
            key_type: Some(SshKeyType::Ed25519),
            rotation: 1,
            ..GitOpsSettings::default()
        };
        let effective = GitOpsSettings::over(Some(&own), Some(&of_tenant));
        assert_eq!(effective.tool, GitOpsTool::Flux);
        assert_eq!(effective.key_type, SshKeyType::Ed25519);
        assert_eq!(effective.rotation, 3, "each request rotates the key");
        assert_eq!(effective.confirmed_key, None, "a key has one cluster");
        assert!(GitOpsSettings::over(None, None).is_off());
    }
}
