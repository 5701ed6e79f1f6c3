//! Places of the tools in a cluster: namespaces, names of objects, fields of Secrets.

use std::time::Duration;

use fairlead_api::gitops::GitOpsTool;

/// Objects of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) tool: GitOpsTool,
    /// Namespace of the tool.
    pub(crate) namespace: &'static str,
    /// Secret that the tool reads.
    pub(crate) secret: &'static str,
    /// Field of the private key in it.
    pub(crate) private_field: &'static str,
    /// Path of the object, or of the list, whose status tells about the last sync.
    pub(crate) source: &'static str,
    /// Path of the list whose objects report syncs.
    pub(crate) syncs: &'static str,
    /// Definitions without which the tool does not work.
    pub(crate) definitions: &'static [&'static str],
    /// Interval of reads without a rotation. The Applications of Argo CD are a long list.
    pub(crate) poll_interval: Duration,
}

/// Flux's `flux bootstrap` uses these names for source and Secret.
const FLUX: Layout = Layout {
    tool: GitOpsTool::Flux,
    namespace: "flux-system",
    secret: "flux-system",
    private_field: "identity",
    source: "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system",
    syncs: "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations",
    definitions: &[
        "gitrepositories.source.toolkit.fluxcd.io",
        "kustomizations.kustomize.toolkit.fluxcd.io",
    ],
    poll_interval: Duration::from_secs(15),
};

const ARGOCD: Layout = Layout {
    tool: GitOpsTool::Argocd,
    namespace: "argocd",
    secret: "fairlead-catalog",
    private_field: "sshPrivateKey",
    source: "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications",
    syncs: "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications",
    definitions: &["applications.argoproj.io", "appprojects.argoproj.io"],
    poll_interval: Duration::from_secs(60),
};

/// ConfigMap with the host keys of all repositories of Argo CD.
pub(crate) const ARGOCD_HOSTS: &str =
    "/api/v1/namespaces/argocd/configmaps/argocd-ssh-known-hosts-cm";

/// Secret of the agent with the keys of a running rotation, in the namespace of the tool.
pub(crate) const KEYRING: &str = "fairlead-gitops-keys";

impl Layout {
    /// `None` without a tool.
    pub(crate) fn of(tool: GitOpsTool) -> Option<Self> {
        match tool {
            GitOpsTool::Flux => Some(FLUX),
            GitOpsTool::Argocd => Some(ARGOCD),
            GitOpsTool::None => None,
        }
    }

    pub(crate) fn secrets_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    pub(crate) fn secret_path(&self, name: &str) -> String {
        format!("{}/{name}", self.secrets_path())
    }
}
