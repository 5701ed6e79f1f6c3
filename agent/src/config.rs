//! What the agent is told when it starts. Parsed by the command line; nothing in here looks at the environment.

use std::{fmt, path::PathBuf, time::Duration};

use fairlead_api::{
    HubUrl, JoinString,
    hello::{Instance, LinkCount},
};

/// All that one agent needs to know.
#[derive(Clone)]
pub struct Config {
    /// For enrolment. An identity that came from another join string is replaced once this one has worked; one that came from
    /// this one is used.
    pub join: Option<JoinString>,
    /// Where to dial; wins over the hubs of the join string and of the stored identity.
    pub hubs: Vec<HubUrl>,
    /// By what the hub tells this agent from others of its cluster; one that is begun anew with the same takes the place of the
    /// one before at once. None: this process is like no other.
    pub instance: Option<Instance>,
    /// How many links are kept at once. Each prefers another one of the hubs, as far as there are so many.
    pub links: LinkCount,
    /// Believed for the outer TLS beside the machine's own roots and the pin. Read anew at each dial.
    pub ca_file: Option<PathBuf>,
    /// The API server.
    pub target: ApiServerConfig,
    /// Where the identity is kept.
    pub state: IdentityLocation,
    /// Groups that may be impersonated beside Fairlead's own; none of `system:`.
    pub allow_groups: Vec<String>,
    /// Users that admins of the hub may be impersonated as (`kubectl --as`), byte by byte; none of `system:`.
    pub allow_as: Vec<String>,
    /// How often the cluster is looked at for facts; wins over the hub's word. Zero: never.
    pub facts_every: Option<Duration>,
    /// `host:port` that a plain TCP connection may be opened to, exactly as it is asked for.
    pub allow_connect: Vec<String>,
    /// What all sessions may hold together, in bytes, beyond 256 KiB each of messages that are not acknowledged and the first
    /// 256 KiB of each stream's window. Where it is used up, bulk slows down. What is sent into the cluster and not taken there
    /// may be as much again; beyond that requests that bring something along are told `FL-1506`. [`DEFAULT_SESSION_MEMORY_BYTES`] suits.
    pub session_memory: usize,
    /// For the hub only, never for the API server. May hold credentials.
    pub https_proxy: Option<String>,
    /// Exceptions from the proxy, comma-separated, in the format of `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// Of this program.
    pub version: String,
}

/// Enough for two far links at full speed, and a quarter of what the install manifest lets the agent have.
pub const DEFAULT_SESSION_MEMORY_BYTES: usize = 64 << 20;

/// Which API server requests go to, and as whom.
#[derive(Debug, Clone)]
pub enum ApiServerConfig {
    /// That of the cluster this pod runs in, as this pod's service account.
    InCluster {
        /// Host name or IP address of the API server.
        host: String,
        /// Its HTTPS port.
        port: u16,
        /// Holds `token`, `ca.crt` and `namespace`; [`SERVICE_ACCOUNT_DIR`] in a pod.
        dir: PathBuf,
    },
    /// That of a kubeconfig, as its user.
    Kubeconfig {
        /// Path of the kubeconfig file.
        path: PathBuf,
        /// None: the current one.
        context: Option<String>,
    },
}

/// Where a pod finds its service account.
pub const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Where the identity is kept.
#[derive(Debug, Clone)]
pub enum IdentityLocation {
    /// In the Secret `fairlead-identity` of the cluster itself; None: in the pod's own namespace.
    Secret {
        /// `None`: the pod's own namespace.
        namespace: Option<String>,
    },
    /// In this folder, mode 0700; made where it is missing.
    Dir(PathBuf),
}

/// Namespace of the agent's own objects outside of a pod; the install manifest creates it.
pub(crate) const DEFAULT_NAMESPACE: &str = "fairlead";

/// For the log: where requests go and as whom, without credentials.
impl fmt::Display for ApiServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiServerConfig::InCluster { host, port, .. } => {
                write!(f, "{host}:{port}, as this pod's service account")
            }
            ApiServerConfig::Kubeconfig {
                path,
                context: None,
            } => write!(f, "the current context of {}", path.display()),
            ApiServerConfig::Kubeconfig {
                path,
                context: Some(context),
            } => {
                write!(f, "context {context:?} of {}", path.display())
            }
        }
    }
}
