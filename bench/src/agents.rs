//! Role `agents`: many real Fairlead agents in one process. Each has its own cluster, key, identity and
//! connection to the upstream. They share only the runtime.

use std::path::PathBuf;

use anyhow::Context as _;
use fairlead_agent::{Config, DEFAULT_SESSION_MEMORY_BYTES, IdentityLocation};
use fairlead_api::{JoinString, hello::LinkCount, resources::JoinInfo};
use fairlead_apiserver::ApiServerConfig;
use fairlead_runtime::Process;
use secrecy::ExposeSecret as _;
use tokio::task::JoinSet;

use crate::{api::Api, peers::HubReady};

/// Agents that enrol at the same time. The hub bounds the number of handshakes without an identity.
const MAX_ENROLLING: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ready file of `fairlead dev`
    #[arg(long)]
    hub_ready: PathBuf,
    /// Kubeconfig of the upstream
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Folder of the agents' identities; created if it is missing
    #[arg(long)]
    state: PathBuf,
    #[arg(long)]
    count: u32,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let ready: HubReady = serde_json::from_slice(&std::fs::read(&args.hub_ready)?)?;
    let hub = Api::new(&ready.url, &ready.ca_file, &ready.token_file)?;
    std::fs::create_dir_all(&args.state)?;
    let mut agents = JoinSet::new();
    let mut numbers = 0..args.count;
    loop {
        // Agents are registered in small groups. Each group runs before the next one is requested.
        let group = numbers.by_ref().take(MAX_ENROLLING);
        let joins = futures_util::future::try_join_all(group.map(|number| create(&hub, number)));
        let joins = joins.await?;
        if joins.is_empty() {
            break;
        }
        for join in joins {
            let state = args.state.join(join.id.to_string());
            let config = config(&join, args.kubeconfig.clone(), state)?;
            // Each agent needs a `Process` of its own, which owns its tasks and metrics.
            agents.spawn(fairlead_agent::run(config, Process::new()));
        }
    }
    match agents.join_next().await {
        Some(ended) => Ok(ended??),
        None => Ok(()),
    }
}

fn config(join: &JoinInfo, kubeconfig: PathBuf, state: PathBuf) -> anyhow::Result<Config> {
    let text = join.join.expose_secret();
    Ok(Config {
        join: Some(text.parse::<JoinString>()?),
        adopt: false,
        git_proxy: Default::default(),
        hubs: Vec::new(),
        instance: None,
        links: Some(LinkCount::ONE),
        learn_hubs: false,
        ca_file: None,
        target: ApiServerConfig::Kubeconfig {
            path: kubeconfig,
            context: None,
        },
        state: IdentityLocation::Dir(state),
        allow_groups: Vec::new(),
        allow_as: Vec::new(),
        facts_every: Some(std::time::Duration::ZERO),
        operator_namespaces: Vec::new(),
        allow_connect: Vec::new(),
        delivery: None,
        upgrades: fairlead_agent::UpgradeRule::Off,
        session_memory: DEFAULT_SESSION_MEMORY_BYTES,
        https_proxy: None,
        proxy_file: None,
        no_proxy: None,
        traces: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

async fn create(hub: &Api, number: u32) -> anyhow::Result<JoinInfo> {
    let body = format!(r#"{{"displayName":"bench-{number}","tenant":"t-default"}}"#);
    let created = hub.create("/clusters", [body]).await?;
    created.into_iter().next().context("no cluster was created")
}
