//! Settings of a hub, one struct for all modules; the wiring hands each module its own part.

use std::{path::PathBuf, time::Duration};

use fairlead_api::HubUrl;
use fairlead_certs::Leaf;
use fairlead_facts::InfluxConfig;
use fairlead_registry::{Discovery, stale::Reporting};
use fairlead_store::{Place, Retention};
use secrecy::SecretString;

use crate::modules::{enroll::Network, repositories::GitServers};

/// Default lifetime of a bootstrap token.
pub const BOOTSTRAP_TTL: Duration = Duration::from_secs(1800);

/// Settings for opening the modules.
#[derive(Debug, Clone)]
pub struct Config {
    /// Created if missing; locked by one hub.
    pub data_dir: PathBuf,
    /// Address of the hub for people and agents, used in join strings and install URLs.
    pub public_url: HubUrl,
    /// Address of install manifests, like `http://127.0.0.1:9090`, if it differs from the front.
    pub install_base: Option<String>,
    /// Clusters are also reachable as `<id>.<cluster_domain>`.
    pub cluster_domain: String,
    /// The front's certificate, if configured (`--tls-cert`).
    pub front_leaf: Option<Leaf>,
    /// Location of the registry; defaults to a file in `data_dir`.
    pub store: Option<Place>,
    /// Sealing key for the hub's keys in the store, 32 bytes in base64, for several hubs on one
    /// database. `None` keeps the keys in the folder alone.
    pub store_key: Option<SecretString>,
    /// Retention of history.
    pub retention: Retention,
    /// Report intervals of the sources of facts, which decide when facts become stale.
    pub reporting: Reporting,
    /// InfluxDB to which facts are also written.
    pub influx: Option<InfluxConfig>,
    /// Start although keys or database of an earlier hub are missing.
    pub accept_data_loss: bool,
    /// Configuration file of external issuers (`docs/issuers.md`).
    pub issuers: Option<PathBuf>,
    /// Lifetime of a bootstrap token; [`BOOTSTRAP_TTL`] by default.
    pub bootstrap_ttl: Duration,
    /// Time after its expiry within which an identity may renew itself, unless another key has
    /// enrolled since. Zero disables late renewal.
    pub renew_grace: Duration,
    /// Version of the hub, for the install manifest.
    pub version: String,
    /// The agent's image, for the install manifest.
    pub image: String,
    /// The image of Project Syn's Steward, for its install manifests.
    pub steward_image: String,
    /// Services announced by `GET /`.
    pub discovery: Discovery,
    /// Names of facts that become labels of `syn_lieutenant_cluster_facts`; at most 32.
    pub metric_facts: Vec<String>,
    /// Proxies in front of the hub with trusted `X-Forwarded-Proto` and host.
    pub trusted_proxies: Vec<Network>,
    /// Plugged-in Git servers.
    pub git_servers: GitServers,
}
