//! Settings of a hub, one struct for all modules; the wiring hands each module its own part.

use std::{path::PathBuf, sync::Arc};

use fairlead_api::HubUrl;
use fairlead_delivery::ProgramProxy;
use fairlead_facts::InfluxConfig;
use fairlead_registry::RegistrySettings;
use fairlead_repositories::GitServers;
use fairlead_store::{AgentAddress, Place};
use fairlead_vault::SecretAccess;
use secrecy::SecretString;

use crate::{
    front_files::FrontFiles,
    modules::{
        access::AccessSettings, enroll::EnrollSettings, git_proxy::GitProxySettings,
        services::ServiceSettings,
    },
};

/// Settings for opening the modules.
#[derive(Debug, Clone)]
pub struct Config {
    /// Created if missing; locked by one hub.
    pub data_dir: PathBuf,
    /// Address of the hub for people and agents, used in join strings and install URLs.
    pub public_url: HubUrl,
    /// Address of the hub for the other hubs on its database.
    pub hub_address: HubUrl,
    /// Address of the hub in the list that agents learn.
    pub agent_address: AgentAddress,
    /// Address of install manifests, like `http://127.0.0.1:9090`, if it differs from the front.
    pub install_base: Option<String>,
    /// Clusters are also reachable as `<id>.<cluster_domain>`.
    pub cluster_domain: String,
    /// Files of the front's certificate, if configured (`--tls-cert`).
    pub front_files: Option<FrontFiles>,
    /// Location of the registry; defaults to a file in `data_dir`.
    pub store: Option<Place>,
    /// Sealing key for the hub's keys in the store, 32 bytes in base64, for several hubs on one
    /// database. `None` keeps the keys in the folder alone.
    pub store_key: Option<SecretString>,
    /// InfluxDB to which facts are also written.
    pub influx: Option<InfluxConfig>,
    /// Start although keys or database of an earlier hub are missing.
    pub accept_data_loss: bool,
    /// Configuration file of external issuers (`docs/issuers.md`).
    pub issuers: Option<PathBuf>,
    /// Settings of the registry.
    pub registry: RegistrySettings,
    /// Limits of roles for a time.
    pub access: AccessSettings,
    /// Settings of enrolment.
    pub enroll: EnrollSettings,
    /// Folder with credentials for sources of bundles: a folder for each tenant, and in it one file for each name.
    pub delivery_credentials: Option<PathBuf>,
    /// Program helm, for charts of repositories.
    pub helm: Option<PathBuf>,
    /// Proxy of the programs git and helm.
    pub program_proxy: ProgramProxy,
    /// Connections of agents to Git servers.
    pub git_proxy: GitProxySettings,
    /// Ports and hosts of named services.
    pub services: ServiceSettings,
    /// Folder with manifests of GitOps tools, beside the embedded ones.
    pub gitops_manifests: Option<PathBuf>,
    /// Plugged-in Git servers.
    pub git_servers: GitServers,
    /// Vault with the secrets of clusters.
    pub vault: Option<Arc<dyn SecretAccess>>,
}
