//! Configuration of one agent, parsed by the command line. Nothing here reads the environment.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use fairlead_api::{
    HubUrl, JoinString,
    hello::{Instance, LinkCount},
    site::OperatorNamespace,
};
use fairlead_apiserver::ApiServerConfig;
use fairlead_delivery_agent::Launch;
use fairlead_traces::TraceSettings;

/// Configuration of one agent.
#[derive(Clone)]
pub struct Config {
    /// Join string for enrolment. A stored identity from another join string is replaced once this one has
    /// enrolled.
    pub join: Option<JoinString>,
    /// Without an identity and a join string: announce the key and wait for a person's approval.
    pub adopt: bool,
    /// Hubs to dial. Overrides the hubs of the join string and of the stored identity. Learned hubs come before them.
    pub hubs: Vec<HubUrl>,
    /// Name of this process among the agents of its cluster. A restart with the same name replaces the previous
    /// process at once. None: a random name.
    pub instance: Option<Instance>,
    /// Number of links. Each link prefers another hub, as far as there are enough hubs. None: two with several hubs, else
    /// one.
    pub links: Option<LinkCount>,
    /// Learn the addresses of all hubs from the hub.
    pub learn_hubs: bool,
    /// CA for the outer TLS, in addition to the machine's roots and the pin. Read again at each dial.
    pub ca_file: Option<PathBuf>,
    /// API server of this site.
    pub target: ApiServerConfig,
    /// Store of the identity.
    pub state: IdentityLocation,
    /// Groups that may be impersonated in addition to Fairlead's own; none of `system:`.
    pub allow_groups: Vec<String>,
    /// Users that admins of the hub may be impersonated as (`kubectl --as`), byte by byte; none of `system:`.
    pub allow_as: Vec<String>,
    /// Interval of fact collection. Overrides the hub's configuration. Zero: never.
    pub facts_every: Option<Duration>,
    /// Namespaces in which operators get the ClusterRole `edit`, and whose groups may be impersonated. The install
    /// manifest binds them; an agent with a kubeconfig does so itself.
    pub operator_namespaces: Vec<OperatorNamespace>,
    /// Rules for plain TCP connections of the hub, each a [`ConnectRule`](fairlead_api::tcp::ConnectRule).
    pub allow_connect: Vec<String>,
    /// Listeners of the Git proxy.
    pub git_proxy: GitProxyConfig,
    /// Delivery of bundles. None: the agent delivers nothing.
    pub delivery: Option<DeliveryConfig>,
    /// Upgrades of the agent by the hub.
    pub upgrades: UpgradeRule,
    /// Memory budget of all sessions together, in bytes. Not counted per session: 256 KiB of unacknowledged
    /// messages and the first 256 KiB of each stream's window. When it is used up, bulk transfers slow down.
    /// Data on its way into the cluster has a budget of the same size; over it, requests with a body get
    /// `FL-1506`. Default: [`DEFAULT_SESSION_MEMORY_BYTES`].
    pub session_memory: usize,
    /// Proxy for the hub only, never for the API server. May contain credentials.
    pub https_proxy: Option<String>,
    /// File with the URL of the proxy, read again for each dial. Replaces `https_proxy`.
    pub proxy_file: Option<PathBuf>,
    /// Exceptions from the proxy, comma-separated, in the format of `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// Export of traces; `None` for none.
    pub traces: Option<TraceSettings>,
    /// Version of this program.
    pub version: String,
}

/// Upgrades that a site operator allows the hub.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradeRule {
    /// None.
    Off,
    /// To images of the repository that the Deployment has already.
    #[default]
    SameRepository,
    /// To images of any repository.
    Any,
}

impl FromStr for UpgradeRule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "off" => Ok(UpgradeRule::Off),
            "repository" => Ok(UpgradeRule::SameRepository),
            "any" => Ok(UpgradeRule::Any),
            _ => Err("expected off, repository or any"),
        }
    }
}

/// Settings of delivery.
#[derive(Debug, Clone)]
pub struct DeliveryConfig {
    /// Folder for content of the hub, so that a restarted agent need not fetch it again.
    pub cache: Option<PathBuf>,
    /// Runner of the programs. None: bundles of the kind `helm` are refused.
    pub runner: Option<RunnerConfig>,
}

/// Runner of the programs of deliveries.
#[derive(Debug, Clone)]
pub enum RunnerConfig {
    /// A container of the agent's pod, at this Unix socket.
    Socket(PathBuf),
    /// Outside of a pod, a process that the agent starts, and takes over after a restart.
    Started(Launch),
}

/// Default of [`Config::session_memory`]: two far links at full speed, a quarter of the install manifest's
/// limit.
pub const DEFAULT_SESSION_MEMORY_BYTES: usize = 64 << 20;

/// Store of the identity.
#[derive(Debug, Clone)]
pub enum IdentityLocation {
    /// Secret `fairlead-identity` of the agent's own cluster.
    Secret {
        /// `None`: the pod's own namespace.
        namespace: Option<String>,
    },
    /// Directory with mode 0700, created if missing.
    Dir(PathBuf),
}

/// Namespace of the agent's own objects outside a pod. The install manifest creates it.
pub(crate) const DEFAULT_NAMESPACE: &str = "fairlead";

/// Listeners of the Git proxy; none by default.
#[derive(Debug, Clone, Default)]
pub struct GitProxyConfig {
    /// Address of the HTTP proxy.
    pub listen: Option<SocketAddr>,
    /// Forwards with a fixed target.
    pub forwards: Vec<GitForward>,
}

/// A forward: each connection to `listen` reaches `target`, such as `0.0.0.0:2222=git.example:22`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitForward {
    /// Address in the cluster.
    pub listen: SocketAddr,
    /// `host:port` of a Git server.
    pub target: String,
}

/// Error of parsing a [`GitForward`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected ADDRESS:PORT=HOST:PORT")]
pub struct GitForwardError;

impl FromStr for GitForward {
    type Err = GitForwardError;

    fn from_str(text: &str) -> Result<Self, GitForwardError> {
        let (listen, target) = text.split_once('=').ok_or(GitForwardError)?;
        let is_target = target
            .parse::<http::uri::Authority>()
            .is_ok_and(|it| it.port_u16().is_some() && it.as_str() == target);
        match listen.parse() {
            Ok(listen) if is_target => Ok(GitForward {
                listen,
                target: target.to_owned(),
            }),
            _ => Err(GitForwardError),
        }
    }
}

impl fmt::Display for GitForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.listen, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_has_an_address_and_a_target() {
        let text = "0.0.0.0:2222=git.example:22";
        let forward: GitForward = text.parse().unwrap();
        assert_eq!(forward.listen.port(), 2222);
        assert_eq!(forward.target, "git.example:22");
        assert_eq!(forward.to_string(), text);
        for bad in [
            "2222=git.example:22",
            "0.0.0.0:2222",
            "0.0.0.0:2222=git.example",
            "0.0.0.0:2222=user@git.example:22x",
            "0.0.0.0:2222=",
        ] {
            assert!(bad.parse::<GitForward>().is_err(), "{bad}");
        }
    }
}
