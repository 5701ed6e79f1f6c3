//! Check of the settings of a GitOps tool that the hub installs: together with the tenant's template, and with the manifests.

use fairlead_api::{Code, Failure, gitops::DesiredTool};
use fairlead_delivery::ToolManifests;
use fairlead_gitops_install::check_keys;
use fairlead_registry::template_of;
use fairlead_store::{
    View,
    model::{AgentSettings, Cluster},
};

/// Refuses settings that the hub could not install.
///
/// # Errors
/// `FL-6816`, `FL-6817`
pub(super) fn check(
    tools: &ToolManifests,
    view: &View,
    cluster: &Cluster,
    settings: &AgentSettings,
) -> Result<(), Failure> {
    let of_all = template_of(view, &cluster.tenant).and_then(|it| it.agent.gitops.as_ref());
    match DesiredTool::over(settings.gitops.as_ref(), of_all) {
        Some(desired) => check_tool(tools, &desired),
        None => Ok(()),
    }
}

fn check_tool(tools: &ToolManifests, desired: &DesiredTool) -> Result<(), Failure> {
    let manifest = tools.load(desired);
    manifest.map_err(|error| Failure::because(Code::GitOpsManifestUnusable, error))?;
    let Some(verify) = &desired.verify else {
        return Ok(());
    };
    check_keys(desired.tool, verify)
        .map_err(|error| Failure::because(Code::GitOpsKeysUnusable, error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fairlead_api::gitops::{CommitVerification, GitOpsTool, ToolInstallation, VerifyMode};

    use super::*;

    #[test]
    fn unusable_manifests_and_keys_are_refused() {
        let tools = ToolManifests::default();
        let mut desired = DesiredTool {
            tool: GitOpsTool::Argocd,
            adopt: false,
            installation: ToolInstallation::default(),
            verify: None,
        };
        assert_eq!(check_tool(&tools, &desired), Ok(()));
        desired.installation.version = Some("1.0.0".to_owned());
        let refused = check_tool(&tools, &desired).unwrap_err();
        assert_eq!(refused.code, Code::GitOpsManifestUnusable);
        desired.installation.version = None;
        let ssh =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIWHuXiCvrXDSyHdB4ZHbRMYTIvLqeRFJk43LqZ7c4sN";
        desired.verify = Some(CommitVerification {
            mode: VerifyMode::Head,
            keys: BTreeMap::from([("ann".to_owned(), ssh.to_owned())]),
        });
        let refused = check_tool(&tools, &desired).unwrap_err();
        assert_eq!(refused.code, Code::GitOpsKeysUnusable);
        desired.tool = GitOpsTool::Flux;
        assert_eq!(check_tool(&tools, &desired), Ok(()));
    }
}
