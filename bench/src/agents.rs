//! As many agents of Fairlead as wanted in one process: the agent's own code, each with a cluster, a key, an identity and a
//! connection to the upstream of its own. They share nothing but the runtime.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use fairlead_agent::{Config, State, Target};
use fairlead_api::{JoinString, hello::Links, resources::JoinInfo};
use fairlead_runtime::Process;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode, Uri,
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use secrecy::ExposeSecret as _;
use tokio::{task::JoinSet, time};

use crate::{dial::Dial, peers::HubReady, tls};

/// How many agents enrol at a time: handshakes without an identity have a waiting room with an end.
const AT_ONCE: usize = 16;
const CREATE: Duration = Duration::from_secs(30);

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
    let hub = Hub::new(&ready)?;
    std::fs::create_dir_all(&args.state)?;
    let mut agents = JoinSet::new();
    let mut numbers = 0..args.count;
    loop {
        // Registered in small groups, and each group runs before the next one is asked for.
        let group = numbers.by_ref().take(AT_ONCE);
        let joins = futures_util::future::try_join_all(group.map(|number| hub.create(number)));
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
        links: Links::ONE,
        ca_file: None,
        target: Target::Kubeconfig {
            path: kubeconfig,
            context: None,
        },
        state: State::Dir(state),
        allow_groups: Vec::new(),
        allow_connect: Vec::new(),
        https_proxy: None,
        no_proxy: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Its API, as an admin.
struct Hub {
    dial: Dial,
    host: HeaderValue,
    bearer: HeaderValue,
}

impl Hub {
    fn new(ready: &HubReady) -> anyhow::Result<Self> {
        let url: Uri = ready.url.parse()?;
        let authority = url.authority().context("the hub's URL has no host")?;
        let tls = tls::client(&ready.ca_file)?;
        let token = std::fs::read_to_string(&ready.token_file)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()))?;
        bearer.set_sensitive(true);
        Ok(Self {
            dial: Dial::new(authority, authority.host(), Some(tls), None)?,
            host: HeaderValue::from_str(authority.as_str())?,
            bearer,
        })
    }

    async fn create(&self, number: u32) -> anyhow::Result<JoinInfo> {
        let created = time::timeout(CREATE, async {
            let (mut sender, driver) = http1::handshake(self.dial.open().await?).await?;
            // Ends with the connection.
            drop(tokio::spawn(driver));
            let body = format!(r#"{{"displayName":"bench-{number}"}}"#);
            let mut request = Request::new(Full::new(Bytes::from(body)));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = Uri::from_static("/api/v1/clusters");
            let headers = request.headers_mut();
            headers.insert(HOST, self.host.clone());
            headers.insert(AUTHORIZATION, self.bearer.clone());
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            ensure!(
                status == StatusCode::CREATED || status == StatusCode::OK,
                "a cluster was not created: {status}"
            );
            Ok(serde_json::from_slice(&body)?)
        });
        created.await.context("no cluster in time")?
    }
}
