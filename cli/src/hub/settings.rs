//! Settings of a hub. A setting is declared here once: its flag with help, its field, and its reader with the default.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the comments on flags are help texts for a terminal"
)]

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::Parser;
use fairlead_api::{HubUrl, TimeSpan};
use fairlead_client::Environment;
use fairlead_control::{
    ACCESS_MAX, AccessSettings, EMERGENCY_MAX, EnrollSettings, GitProxySettings, ProgramProxy,
    ServiceSettings,
};
use fairlead_facts::InfluxConfig;
use fairlead_gateway::GatewayLimits;
use fairlead_registry::RegistrySettings;
use fairlead_runtime::{
    config::{ListenAddress, MemorySize, Reader},
    proxies::Proxies,
};
use fairlead_store::{AgentAddress, Place};
use fairlead_traces::TraceSettings;
use secrecy::SecretString;

use super::{
    influx, registry_settings,
    site_settings::{self, RENEW_GRACE, STEWARD_IMAGE, SiteFlags},
};
use crate::{
    args::{process::ProcessArgs, traces::TraceArgs},
    settings::read_secret,
    traces,
};

/// Name of the hub in traces.
const SERVICE: &str = "fairlead-hub";
/// Default of `--audit-keep`.
const AUDIT_KEEP: Duration = Duration::from_secs(365 * 24 * 3600);

/// Complete settings of a hub.
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    pub(crate) listen: SocketAddr,
    /// Address for plain HTTP, for a proxy that terminates TLS.
    pub(crate) listen_plain: Option<SocketAddr>,
    pub(crate) admin: SocketAddr,
    pub(crate) ready_file: Option<PathBuf>,
    /// `None` is the listen address.
    pub(crate) public_url: Option<HubUrl>,
    /// Address for the other hubs on the same database; `None` is the listen address.
    pub(crate) hub_address: Option<HubUrl>,
    /// Address in the list that agents learn.
    pub(crate) agent_address: AgentAddress,
    pub(crate) cluster_domain: Option<String>,
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// `None` is a file in `data`.
    pub(crate) store: Option<Place>,
    /// Key that encrypts the hub's keys in the store.
    pub(crate) store_key: Option<SecretString>,
    pub(crate) influx: Option<InfluxConfig>,
    pub(crate) issuers: Option<PathBuf>,
    /// Configuration of the audit log.
    pub(crate) audit_config: Option<PathBuf>,
    /// Retention of the audit log of requests.
    pub(crate) audit_keep: Duration,
    pub(crate) gateway: GatewayLimits,
    /// Proxies in front of the hub.
    pub(crate) proxies: Proxies,
    pub(crate) registry: RegistrySettings,
    pub(crate) enroll: EnrollSettings,
    pub(crate) access: AccessSettings,
    pub(crate) git_proxy: GitProxySettings,
    /// Address for the ports of named services.
    pub(crate) service_listen: Option<IpAddr>,
    /// Ports and hosts of named services.
    pub(crate) services: ServiceSettings,
    pub(crate) accept_data_loss: bool,
    /// Configuration file of Git servers.
    pub(crate) git_servers: Option<PathBuf>,
    /// Configuration file of the Vault with the secrets of clusters.
    pub(crate) vault: Option<PathBuf>,
    /// Folder with manifests of GitOps tools, beside the embedded ones.
    pub(crate) gitops_manifests: Option<PathBuf>,
    /// Folder with credentials for sources of bundles.
    pub(crate) delivery_credentials: Option<PathBuf>,
    /// Program helm, for charts of repositories.
    pub(crate) helm: Option<PathBuf>,
    /// Proxy of the programs git and helm: the variables of the hub.
    pub(crate) program_proxy: ProgramProxy,
    /// Export of traces.
    pub(crate) traces: Option<TraceSettings>,
    /// Set for `fairlead dev`: install manifests on the admin port, and a login for this user.
    pub(crate) dev: Option<Environment>,
}

const DEV_EXAMPLES: &str = "\
Examples:
  fairlead dev
  fairlead dev --listen :8443 --public-url https://laptop.local:8443      # for agents on other machines
  fairlead dev --data /tmp/hub --listen 127.0.0.1:0 --ready-file /tmp/hub/ready.json";

#[derive(Parser)]
#[command(after_help = DEV_EXAMPLES)]
pub(crate) struct Dev {
    /// Folder of the hub's store and keys [default: ~/.local/share/fairlead/dev]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Listen address; port 0 selects a free port, :8443 listens on all interfaces [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// URL for people and agents, with a name or address of this machine, like https://laptop.local:8443
    /// [default: the listen address]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Additional listen address for plain HTTP/1.1, for a proxy that terminates TLS; tokens are not encrypted there [default: none]
    #[arg(long, value_name = "ADDR")]
    listen_plain: Option<String>,
    /// Listen address for health, metrics and install manifests, plain HTTP [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Time that open requests wait for a disconnected agent; 0s resets them at once [default: 60s]
    #[arg(long, value_name = "DURATION")]
    resume_window: Option<String>,
    /// Agent image in install manifests [default: fairlead:<version>]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Start although keys or database are missing from the data folder, and create new ones
    #[arg(long)]
    accept_data_loss: bool,
    /// File to write when the hub is ready: JSON with url, admin_url, ca_file, token_file, kubeconfig
    #[arg(long, value_name = "FILE")]
    ready_file: Option<String>,
    #[command(flatten)]
    sites: SiteFlags,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    process: ProcessArgs,
}

const SERVER_EXAMPLES: &str = "\
Examples:
  fairlead server --data /var/lib/fairlead --listen 0.0.0.0:443 --public-url https://hub.example.com \\
    --tls-cert tls.crt --tls-key tls.key
  FAIRLEAD_CONFIG=/etc/fairlead.toml fairlead server      # settings in a table [server]";

#[derive(Parser)]
#[command(after_help = SERVER_EXAMPLES)]
pub(crate) struct Server {
    /// Folder of the hub's store and keys [default: /var/lib/fairlead]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Listen address for people and agents [default: 0.0.0.0:8443]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Additional listen address for plain HTTP/1.1, for a proxy that terminates TLS; tokens are not encrypted there [default: none]
    #[arg(long, value_name = "ADDR")]
    listen_plain: Option<String>,
    /// Listen address for health and metrics, plain HTTP [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Certificate chain of the listen address, PEM [default: issued by the hub's own CA]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key of that certificate, PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// URL for people and agents, like https://hub.example.com
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Address at which the other hubs on the same database reach this one, like https://10.0.0.5:8443 or https://[fd00::5]:8443
    /// [default: the listen address, or with all interfaces the address on the route to the database]
    #[arg(long, value_name = "URL")]
    hub_address: Option<String>,
    /// Address at which agents reach this hub and no other one. Agents learn the addresses of all hubs; none keeps this hub
    /// out of the list [default: the public URL, unless another hub on the same database has the same one]
    #[arg(long, value_name = "URL|none")]
    agent_address: Option<String>,
    /// Domain of the cluster names <id>.<domain> [default: clusters.<host of the public URL>]
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
    /// Database of the registry: postgres://USER@HOST/DATABASE, without a password. The certificate of a remote server is
    /// verified unless sslmode disables that [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// File with the password of the store; alternatively FAIRLEAD_STORE_PASSWORD
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<String>,
    /// File with a key of 32 bytes in base64, the same for all hubs on one database. It encrypts the CA and the key of
    /// bootstrap tokens in the store, so that further hubs can load them; alternatively FAIRLEAD_STORE_KEY [default: none]
    #[arg(long, value_name = "FILE")]
    store_key_file: Option<String>,
    /// Retention of the change log, which has at most a million entries [default: 7d]
    #[arg(long, value_name = "DURATION")]
    keep_changes: Option<String>,
    /// Retention of the history of facts [default: 400d]
    #[arg(long, value_name = "DURATION")]
    keep_facts: Option<String>,
    /// TOML file of the audit log: syslog, webhooks, OTLP, recordings of sessions, and the reaction to a full disk [default: none]
    #[arg(long, value_name = "FILE")]
    audit_config: Option<String>,
    /// Retention of the audit: requests in the data folder, and changes by people in the store [default: 365d]
    #[arg(long, value_name = "DURATION")]
    audit_keep: Option<String>,
    /// Longest interval between two fact reports of an agent, 1s to 30d; facts are stale after three missed reports [default: 1h]
    #[arg(long, value_name = "DURATION")]
    agent_reports_every: Option<String>,
    /// The same interval for Project Syn's Steward and other programs with a token of role cluster [default: 1m]
    #[arg(long, value_name = "DURATION")]
    steward_reports_every: Option<String>,
    /// InfluxDB 1.x that also receives the facts, like https://influx.example:8086 [default: none]
    #[arg(long, value_name = "URL")]
    influx_url: Option<String>,
    /// Existing database of the InfluxDB [default: fairlead]
    #[arg(long, value_name = "NAME")]
    influx_database: Option<String>,
    /// User name for the InfluxDB
    #[arg(long, value_name = "NAME")]
    influx_user: Option<String>,
    /// File with the password for the InfluxDB; alternatively FAIRLEAD_INFLUX_PASSWORD
    #[arg(long, value_name = "FILE")]
    influx_password_file: Option<String>,
    /// File with a bearer token for the InfluxDB, instead of a password; alternatively FAIRLEAD_INFLUX_TOKEN
    #[arg(long, value_name = "FILE")]
    influx_token_file: Option<String>,
    /// CA of the InfluxDB, PEM, in addition to the system's CAs
    #[arg(long, value_name = "FILE")]
    influx_ca_file: Option<String>,
    /// Size of the spool in the data folder for an unavailable InfluxDB; the oldest facts beyond it are dropped [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    influx_spool: Option<String>,
    /// Send queries of GET /inventory to the InfluxDB, except requests with backend=hub
    #[arg(long)]
    influx_query: bool,
    /// Start although keys or database are missing from the data folder, and create new ones; clusters may have to enrol again
    #[arg(long)]
    accept_data_loss: bool,
    /// TOML file of trusted token issuers: OpenID Connect, Kubernetes clusters [default: none]
    #[arg(long, value_name = "FILE")]
    issuers: Option<String>,
    /// TOML file of Git servers that provide the repositories of tenants and clusters: GitLab, GitHub, Gitea, Forgejo [default: none]
    #[arg(long, value_name = "FILE")]
    git_servers: Option<String>,
    /// TOML file of the Vault in which each cluster gets a policy, an auth method and a role for its own secrets [default: none]
    #[arg(long, value_name = "FILE")]
    vault: Option<String>,
    /// Folder with manifests of GitOps tools, TOOL-VERSION.yaml, for versions that are not embedded [default: none]
    #[arg(long, value_name = "DIR")]
    gitops_manifests: Option<String>,
    /// Folder with keys and tokens for Git: a folder for each tenant, and in it one file for each name that a source uses.
    /// SOURCE.webhook has the secret of the webhook of that source [default: none]
    #[arg(long, value_name = "DIR")]
    delivery_credentials: Option<String>,
    /// Program helm, to fetch charts of repositories that folders name [default: none]
    #[arg(long, value_name = "FILE")]
    helm: Option<String>,
    /// Longest time of a role that a second person approved [default: 8h]
    #[arg(long, value_name = "DURATION")]
    access_max: Option<String>,
    /// Longest time of a role that was taken in an emergency [default: 1h]
    #[arg(long, value_name = "DURATION")]
    break_glass_max: Option<String>,
    /// Lifetime of bootstrap tokens [default: 30m]
    #[arg(long, value_name = "DURATION")]
    bootstrap_ttl: Option<String>,
    /// Longest lifetime of API tokens that people make, from creation or hand-over [default: 30d]
    #[arg(long, value_name = "DURATION")]
    person_token_ttl: Option<String>,
    /// Time after its expiry in which an agent's identity can be renewed, unless another agent has enrolled; 0s disables it [default: 30d]
    #[arg(long, value_name = "DURATION")]
    renew_grace: Option<String>,
    /// Limit of concurrent requests per caller, watches included; further requests get status 429 [default: 1000]
    #[arg(long, value_name = "N")]
    max_requests_per_caller: Option<String>,
    /// Time that open requests wait for a disconnected agent; 0s resets them at once [default: 60s]
    #[arg(long, value_name = "DURATION")]
    resume_window: Option<String>,
    /// Time after SIGTERM in which a hub among several still serves new requests, so that load balancers notice that its /healthz
    /// fails; a part of --drain-timeout [default: 5s]
    #[arg(long, value_name = "DURATION")]
    drain_delay: Option<String>,
    /// Time after which an answer is reset if its client takes nothing of it; an answer with nothing to send stays [default: 30s]
    #[arg(long, value_name = "DURATION")]
    stall_timeout: Option<String>,
    /// Default quota of each tenant, like clusters=100; also tokens, catalogs, catalogBytes, changesPerMinute; repeatable
    /// [default: no limits]
    #[arg(long = "tenant-quota", value_name = "NAME=NUMBER")]
    tenant_quota: Vec<String>,
    /// Memory budget of all sessions, in addition to 256 KiB per open stream. Large transfers slow down beyond it. A second
    /// budget of this size is for data that clients do not read; beyond it answers of the tenant with the most such clients are
    /// reset, and new requests are refused [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    session_memory: Option<String>,
    /// Agent image in install manifests [default: fairlead:<version>]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Image of Project Syn's Steward in its install manifests [default: docker.io/projectsyn/steward:v0.13.0]
    #[arg(long, value_name = "IMAGE")]
    steward_image: Option<String>,
    /// Fact to add as a label of syn_lieutenant_cluster_facts, like distribution; repeatable [default: none]
    #[arg(long, value_name = "NAME")]
    metric_fact: Vec<String>,
    /// Number of clusters with metrics of their own, those with the most traffic; the others share a row [default: 100]
    #[arg(long, value_name = "N")]
    metric_clusters: Option<String>,
    /// Network of trusted proxies, like 10.0.0.0/8; their X-Forwarded-For, X-Forwarded-Proto and Host headers are used; repeatable
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<String>,
    /// Require a PROXY header (version 1 or 2) on each connection of a trusted proxy, and refuse it from all others
    #[arg(long)]
    proxy_protocol: bool,
    /// Discovery URL of the OIDC provider that GET / reports to Lieutenant's clients
    #[arg(long, value_name = "URL")]
    oidc_discovery_url: Option<String>,
    /// Client id for that OIDC provider
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Address of the Vault that GET / reports to Lieutenant's clients
    #[arg(long, value_name = "URL")]
    vault_addr: Option<String>,
    /// Login method for that Vault
    #[arg(long, value_name = "METHOD")]
    vault_login_method: Option<String>,
    /// File to write when the hub is ready: JSON with url, admin_url, ca_file, token_file, kubeconfig
    #[arg(long, value_name = "FILE")]
    ready_file: Option<String>,
    #[command(flatten)]
    sites: SiteFlags,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    process: ProcessArgs,
}

/// Reads the settings of `fairlead server`.
pub(crate) fn read_server(reader: &mut Reader, environment: &Environment) -> Settings {
    let tls_cert = reader.optional::<PathBuf>("tls-cert");
    let tls = match (tls_cert, reader.optional::<PathBuf>("tls-key")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => {
            reader.mistake("tls-cert and tls-key must be set together");
            None
        }
    };
    let store = read_store(reader);
    let (service_listen, services) = site_settings::services(reader);
    Settings {
        data: reader.or("data", PathBuf::from("/var/lib/fairlead")),
        listen: listen_or(reader, "listen", ([0, 0, 0, 0], 8443)),
        listen_plain: reader
            .optional::<ListenAddress>("listen-plain")
            .map(|it| it.0),
        admin: listen_or(reader, "admin", ([127, 0, 0, 1], 9090)),
        ready_file: reader.optional("ready-file"),
        public_url: reader.required(
            "public-url",
            "the URL for people and agents, like https://hub.example.com",
        ),
        hub_address: reader.optional("hub-address"),
        agent_address: reader.or("agent-address", AgentAddress::default()),
        cluster_domain: reader.optional("cluster-domain"),
        tls,
        store,
        store_key: read_secret(reader, "store-key", "store-key-file"),
        influx: influx::read(reader),
        issuers: reader.optional("issuers"),
        audit_config: reader.optional("audit-config"),
        audit_keep: reader.or("audit-keep", TimeSpan(AUDIT_KEEP)).0,
        gateway: read_limits(reader),
        proxies: read_proxies(reader),
        registry: registry_settings::read(reader),
        access: AccessSettings {
            max: reader.or("access-max", TimeSpan(ACCESS_MAX)).0,
            emergency_max: reader.or("break-glass-max", TimeSpan(EMERGENCY_MAX)).0,
        },
        enroll: EnrollSettings {
            renew_grace: reader.or("renew-grace", TimeSpan(RENEW_GRACE)).0,
            steward_image: reader.or("steward-image", STEWARD_IMAGE.to_owned()),
            ..site_settings::enroll(reader)
        },
        git_proxy: site_settings::git_proxy(reader),
        service_listen,
        services,
        accept_data_loss: reader.or("accept-data-loss", false),
        git_servers: reader.optional("git-servers"),
        vault: reader.optional("vault"),
        gitops_manifests: reader.optional("gitops-manifests"),
        delivery_credentials: reader.optional("delivery-credentials"),
        helm: reader.optional("helm"),
        program_proxy: ProgramProxy::default(),
        traces: traces::read(reader, environment, SERVICE),
        dev: None,
    }
}

/// Reads the settings of `fairlead dev`, with `data` as the data folder.
pub(crate) fn read_dev(reader: &mut Reader, data: PathBuf, environment: &Environment) -> Settings {
    let (service_listen, services) = site_settings::services(reader);
    Settings {
        listen: listen_or(reader, "listen", ([127, 0, 0, 1], 8443)),
        listen_plain: reader
            .optional::<ListenAddress>("listen-plain")
            .map(|it| it.0),
        admin: listen_or(reader, "admin", ([127, 0, 0, 1], 9090)),
        ready_file: reader.optional("ready-file"),
        public_url: reader.optional("public-url"),
        hub_address: None,
        agent_address: AgentAddress::default(),
        cluster_domain: None,
        tls: None,
        store: None,
        store_key: None,
        influx: None,
        issuers: None,
        audit_config: None,
        audit_keep: AUDIT_KEEP,
        gateway: GatewayLimits {
            resume_window: read_resume_window(reader),
            ..GatewayLimits::default()
        },
        proxies: Proxies::default(),
        registry: RegistrySettings::default(),
        access: AccessSettings::default(),
        enroll: site_settings::enroll(reader),
        git_proxy: site_settings::git_proxy(reader),
        service_listen,
        services,
        accept_data_loss: reader.or("accept-data-loss", false),
        git_servers: None,
        vault: None,
        gitops_manifests: None,
        delivery_credentials: None,
        helm: None,
        program_proxy: ProgramProxy::default(),
        traces: traces::read(reader, environment, SERVICE),
        dev: Some(environment.clone()),
        data,
    }
}

fn listen_or(reader: &mut Reader, key: &'static str, default: ([u8; 4], u16)) -> SocketAddr {
    reader.or(key, ListenAddress(default.into())).0
}

fn read_store(reader: &mut Reader) -> Option<Place> {
    let place: Option<Place> = reader.optional("store");
    let password = read_secret(reader, "store-password", "store-password-file");
    place.map(|place| place.with_password(password.as_ref()))
}

fn read_limits(reader: &mut Reader) -> GatewayLimits {
    let default = GatewayLimits::default();
    GatewayLimits {
        head_timeout: default.head_timeout,
        max_requests_per_caller: reader
            .or("max-requests-per-caller", default.max_requests_per_caller),
        stall_timeout: reader
            .or("stall-timeout", TimeSpan(default.stall_timeout))
            .0,
        resume_window: read_resume_window(reader),
        drain_delay: reader.or("drain-delay", TimeSpan(default.drain_delay)).0,
        session_memory: reader
            .or("session-memory", MemorySize(default.session_memory))
            .0,
        metric_clusters: reader.or("metric-clusters", default.metric_clusters),
        max_session_handshakes: default.max_session_handshakes,
    }
}

fn read_proxies(reader: &mut Reader) -> Proxies {
    let proxies = Proxies {
        trusted: reader.list("trusted-proxy"),
        proxy_protocol: reader.or("proxy-protocol", false),
    };
    if proxies.proxy_protocol && proxies.trusted.is_empty() {
        reader
            .mistake("proxy-protocol needs trusted-proxy with the networks of the load balancers");
    }
    proxies
}

fn read_resume_window(reader: &mut Reader) -> Duration {
    let default = GatewayLimits::default().resume_window;
    reader.or("resume-window", TimeSpan(default)).0
}
