//! Places of the tools in a cluster: namespaces, names of objects, fields of Secrets.

use fairlead_api::gitops::GitOpsTool;

/// Objects of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Namespace of the tool.
    pub(crate) namespace: &'static str,
    /// Secret that the tool reads.
    pub(crate) secret: &'static str,
    /// Field of the private key in it.
    pub(crate) private_field: &'static str,
    /// Path of the object whose status tells about the last sync.
    pub(crate) source: &'static str,
}

/// Flux's `flux bootstrap` uses these names for source and Secret.
const FLUX: Layout = Layout {
    namespace: "flux-system",
    secret: "flux-system",
    private_field: "identity",
    source: "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system",
};

/// Secret of the agent with the keys of a running rotation, in the namespace of the tool.
pub(crate) const KEYRING: &str = "fairlead-gitops-keys";

impl Layout {
    /// `None` without a tool, and for a tool that this agent does not support.
    pub(crate) fn of(tool: GitOpsTool) -> Option<Self> {
        match tool {
            GitOpsTool::Flux => Some(FLUX),
            GitOpsTool::None | GitOpsTool::Argocd => None,
        }
    }

    pub(crate) fn secrets_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    pub(crate) fn secret_path(&self, name: &str) -> String {
        format!("{}/{name}", self.secrets_path())
    }
}
