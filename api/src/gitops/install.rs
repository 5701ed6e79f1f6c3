//! Installation of a GitOps tool by the hub: its settings, and their effective value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{GitOpsSettings, GitOpsTool};

/// Signed Git objects that the tool requires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum VerifyMode {
    /// The commit that the branch points to.
    #[default]
    Head,
    /// The tag.
    Tag,
    /// The tag, and its commit.
    TagAndHead,
}

/// Verification of commits: nothing else is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitVerification {
    /// Signed Git objects.
    #[serde(default)]
    pub mode: VerifyMode,
    /// Public keys by name: OpenPGP in armor, or `TYPE BASE64` of SSH.
    pub keys: BTreeMap<String, String>,
}

/// Proxy of the tool for HTTPS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolProxy {
    /// URL without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Hosts and networks without the proxy, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
    /// Secret of the site in the namespace of the tool, with `HTTPS_PROXY`: for a URL with credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Settings of a tool that the hub installs; unset fields come from the tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolInstallation {
    /// Version, without `v`; default: the embedded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9]+\\.[0-9]+\\.[0-9]+$")]
    pub version: Option<String>,
    /// SHA-256 of the manifest in the hub's folder, for a version that is not embedded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub sha256: Option<String>,
    /// Registry or mirror in place of those of the images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Branch of the catalog; default `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Folder of the catalog; default: the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Proxy of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ToolProxy>,
    /// Further certificate authorities that the tool trusts, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// True: a Service `fairlead-git` of type `ExternalName` names the Git server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_service: Option<bool>,
}

/// Effective settings of a tool that the hub installs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredTool {
    /// The tool; never `none`.
    pub tool: GitOpsTool,
    /// True: an existing tool is taken over.
    pub adopt: bool,
    /// Settings of manifests and objects.
    pub installation: ToolInstallation,
    /// Verification of commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<CommitVerification>,
}

impl DesiredTool {
    /// Effective settings of a cluster with those of its tenant's template; `None` if the hub installs nothing.
    #[must_use]
    pub fn over(
        own: Option<&GitOpsSettings>,
        of_template: Option<&GitOpsSettings>,
    ) -> Option<Self> {
        let both = [own, of_template].into_iter().flatten();
        let config = GitOpsSettings::over(own, of_template);
        if config.is_off() || !config.install {
            return None;
        }
        let parts = || both.clone().filter_map(|it| it.installation.as_ref());
        // A hash belongs to its version.
        let pinned = parts().find(|it| it.version.is_some());
        Some(DesiredTool {
            tool: config.tool,
            adopt: config.adopt,
            installation: ToolInstallation {
                version: pinned.and_then(|it| it.version.clone()),
                sha256: pinned.and_then(|it| it.sha256.clone()),
                registry: parts().find_map(|it| it.registry.clone()),
                branch: parts().find_map(|it| it.branch.clone()),
                path: parts().find_map(|it| it.path.clone()),
                proxy: parts().find_map(|it| it.proxy.clone()),
                ca: parts().find_map(|it| it.ca.clone()),
                git_service: parts().find_map(|it| it.git_service),
            },
            verify: both.clone().find_map(|it| it.verify.clone()),
        })
    }
}

/// Owner of a tool in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundState {
    /// There is none.
    Absent,
    /// The hub's delivery has installed it.
    Own,
    /// Someone else has installed it.
    Foreign,
}

/// Tool in a cluster, as the agent reports it in the fact `gitops`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundTool {
    /// Owner.
    pub state: FoundState,
    /// Version, as its labels or images name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Field manager that has installed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// True: the objects that an adoption changes are saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub saved: bool,
}

impl FoundTool {
    /// Field of the fact `gitops`.
    pub const FIELD: &str = "found";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(installation: ToolInstallation) -> GitOpsSettings {
        GitOpsSettings {
            installation: Some(installation),
            ..GitOpsSettings::default()
        }
    }

    #[test]
    fn nothing_is_installed_without_tool_or_request() {
        let mut own = settings(ToolInstallation::default());
        own.install = Some(true);
        assert_eq!(DesiredTool::over(Some(&own), None), None, "no tool");
        own.tool = Some(GitOpsTool::Flux);
        assert!(DesiredTool::over(Some(&own), None).is_some());
        own.install = Some(false);
        let of_tenant = GitOpsSettings {
            install: Some(true),
            ..GitOpsSettings::default()
        };
        assert_eq!(DesiredTool::over(Some(&own), Some(&of_tenant)), None);
    }

    #[test]
    fn hash_of_a_manifest_belongs_to_its_version() {
        let mut of_tenant = settings(ToolInstallation {
            version: Some("2.9.0".to_owned()),
            sha256: Some("a".repeat(64)),
            registry: Some("mirror.example".to_owned()),
            ..ToolInstallation::default()
        });
        of_tenant.tool = Some(GitOpsTool::Flux);
        of_tenant.install = Some(true);
        let own = settings(ToolInstallation {
            version: Some("2.9.5".to_owned()),
            ..ToolInstallation::default()
        });
        let desired = DesiredTool::over(Some(&own), Some(&of_tenant)).unwrap();
        assert_eq!(desired.installation.version.as_deref(), Some("2.9.5"));
        assert_eq!(desired.installation.sha256, None);
        let registry = desired.installation.registry.as_deref();
        assert_eq!(registry, Some("mirror.example"));
    }
}
