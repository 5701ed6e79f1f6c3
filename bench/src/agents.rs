//! As many agents of Fairlead as wanted in one process: the agent's own code, each with a cluster, a key, an identity and a
//! connection to the upstream of its own. They share nothing but the runtime.

use std::path::PathBuf;

use anyhow::Context as _;
use fairlead_agent::{Config, SESSION_MEMORY, State, Target};
use fairlead_api::{JoinString, hello::LinkCount, resources::JoinInfo};
use fairlead_runtime::Process;
use secrecy::ExposeSecret as _;
use tokio::task::JoinSet;

use crate::{api::Api, peers::HubReady};

/// How many agents enrol at a time: handshakes without an identity have a waiting room with an end.
const AT_ONCE: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The ready file of `fairlead dev`
    #[arg(long)]
    hub_ready: PathBuf,
    /// Of the upstream
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Where identities are kept; made where it is missing
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
        // Registered in small groups, and each group runs before the next one is asked for.
        let group = numbers.by_ref().take(AT_ONCE);
        let joins = futures_util::future::try_join_all(group.map(|number| create(&hub, number)));
        let joins = joins.await?;
        if joins.is_empty() {
            break;
        }
        for join in joins {
            let state = args.state.join(join.id.to_string());
            let config = config(&join, args.kubeconfig.clone(), state)?;
            // A process of its own for each: it owns the agent's tasks and metrics.
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
        hubs: Vec::new(),
        instance: None,
        links: LinkCount::ONE,
        ca_file: None,
        target: Target::Kubeconfig {
            path: kubeconfig,
            context: None,
        },
        state: State::Dir(state),
        allow_groups: Vec::new(),
        allow_as: Vec::new(),
        facts_every: Some(std::time::Duration::ZERO),
        allow_connect: Vec::new(),
        session_memory: SESSION_MEMORY,
        https_proxy: None,
        no_proxy: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

async fn create(hub: &Api, number: u32) -> anyhow::Result<JoinInfo> {
    let body = format!(r#"{{"displayName":"bench-{number}","tenant":"t-default"}}"#);
    let created = hub.create("/clusters", [body]).await?;
    created.into_iter().next().context("no cluster was created")
}
