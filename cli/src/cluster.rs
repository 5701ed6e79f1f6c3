//! `fairlead cluster`.

use std::{collections::BTreeSet, time::Duration};

use fairlead_api::{
    ClusterId, Code, Failure, TenantId,
    config::Configured,
    resources::{BootstrapToken, Cluster, CreateCluster, JoinInfo, List, State, WhoAmI},
};
use secrecy::ExposeSecret;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{args, environment::Environment, hub_client::HubClient, output, settings::block_on};

/// How often a wait asks.
const ASK: Duration = Duration::from_millis(500);

pub(crate) fn run(command: args::Cluster, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::of(environment)?;
    block_on(async {
        match command {
            args::Cluster::Create {
                name,
                tenant,
                wait,
                timeout,
                output,
            } => {
                let tenant = match tenant {
                    Some(tenant) => named_tenant(&tenant)?,
                    None => own_tenant(&hub).await?,
                };
                let create = CreateCluster {
                    id: None,
                    display_name: Some(name),
                    tenant,
                };
                let join: JoinInfo = hub.post("/clusters", &create).await?;
                output::show(&output.output, &join, install_command)?;
                if wait {
                    wait_for(&hub, &join, timeout.0).await
                } else {
                    Ok(())
                }
            }
            args::Cluster::List(output) => {
                let clusters: Vec<Cluster> = hub.get("/clusters").await?;
                let lagging = lagging(&hub).await?;
                output::show(&output.output, &clusters, |clusters| {
                    table(clusters, &lagging)
                })
            }
            args::Cluster::Get { name, output } => {
                let cluster = find(&hub, &name).await?;
                let lagging = lagging(&hub).await?;
                output::show(&output.output, &cluster, |cluster| {
                    table(std::slice::from_ref(cluster), &lagging) + &clone_line(cluster)
                })
            }
            args::Cluster::Token { command } => token(&hub, command).await,
            args::Cluster::Delete { name } => {
                let cluster = find(&hub, &name).await?;
                hub.delete(&format!("/clusters/{}", cluster.id)).await?;
                output::print(&format!("Deleted {}.\n", cluster.id))
            }
        }
    })?
}

/// The one cluster with this id, or with this display name.
pub(crate) async fn find(hub: &HubClient, name: &str) -> Result<Cluster, Failure> {
    if name.parse::<fairlead_api::ClusterId>().is_ok() {
        return hub.get(&format!("/clusters/{name}")).await;
    }
    let clusters: Vec<Cluster> = hub.get("/clusters").await?;
    let mut named = clusters
        .into_iter()
        .filter(|cluster| cluster.display_name == name);
    match (named.next(), named.next()) {
        (Some(cluster), None) => Ok(cluster),
        (Some(one), Some(other)) => Err(Failure::because(
            Code::Invalid,
            format_args!(
                "{name:?} is the name of {} and of {}: give the id",
                one.id, other.id
            ),
        )),
        (None, _) => Err(Failure::because(
            Code::NoSuchCluster,
            format_args!("{name:?}"),
        )),
    }
}

async fn token(hub: &HubClient, command: args::ClusterToken) -> Result<(), Failure> {
    let path = async |name: &str| -> Result<String, Failure> {
        let cluster = find(hub, name).await?;
        Ok(format!("/v1/clusters/{}/bootstrap-token", cluster.id))
    };
    match command {
        args::ClusterToken::Renew { name, output } => {
            let path = path(&name).await?;
            let join: JoinInfo = hub.post(&path, &serde_json::json!({})).await?;
            output::show(&output.output, &join, install_command)
        }
        args::ClusterToken::Show { name, output } => {
            let join: JoinInfo = hub.get(&path(&name).await?).await?;
            output::show(&output.output, &join, install_command)
        }
        args::ClusterToken::Revoke { name } => {
            hub.delete(&path(&name).await?).await?;
            output::print(&format!("Revoked the bootstrap token of {name}.\n"))
        }
        args::ClusterToken::List(output) => {
            let tokens: List<BootstrapToken> = hub.get("/v1/bootstrap-tokens").await?;
            output::show(&output.output, &tokens, |tokens| token_table(&tokens.items))
        }
    }
}

fn token_table(tokens: &[BootstrapToken]) -> String {
    let row = |token: &BootstrapToken| {
        [
            token.cluster.to_string(),
            format!("{:?}", token.state),
            output::time(token.expires),
            token.made_by.clone().unwrap_or_default(),
        ]
    };
    output::table(
        ["CLUSTER", "STATE", "EXPIRES", "MADE BY"],
        tokens.iter().map(row),
    )
}

fn named_tenant(name: &str) -> Result<TenantId, Failure> {
    TenantId::from_name(name)
        .map_err(|error| Failure::because(Code::Invalid, format_args!("--tenant: {error}")))
}

/// That of whoever asks, else the one that every hub has.
async fn own_tenant(hub: &HubClient) -> Result<TenantId, Failure> {
    let who: WhoAmI = hub.get("/v1/whoami").await?;
    who.tenant.map_or_else(|| named_tenant("t-default"), Ok)
}

fn install_command(join: &JoinInfo) -> String {
    format!(
        "Cluster {} is registered. In the cluster, until {}, run:\n\n  kubectl apply -f '{}'\n\n\
         Where no image can be pulled, run this wherever its API server can be reached:\n\n  \
         fairlead agent --join '{}' --kubeconfig ~/.kube/config\n",
        join.id,
        output::time(join.expires),
        join.agent_install_url.expose_secret(),
        join.join.expose_secret(),
    )
}

/// Waits until kubectl works; each step is a line on stderr.
async fn wait_for(hub: &HubClient, join: &JoinInfo, patience: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + patience;
    let path = format!("/clusters/{}", join.id);
    let mut said = String::new();
    loop {
        let cluster = timeout_at(deadline, hub.get::<Cluster>(&path)).await;
        let step = match cluster.map_err(|_| not_ready(&said))? {
            Ok(cluster) if cluster.status.state == State::Connected => {
                eprintln!("connected: the API server answers through the tunnel");
                return Ok(());
            }
            Ok(cluster) => step(&cluster),
            // A hub that restarts is waited for; one that says no is believed.
            Err(failure) if failure.code == Code::HubUnreachable => failure.cause,
            Err(failure) => return Err(failure),
        };
        if step != said {
            eprintln!("{step}");
            said = step;
        }
        if Instant::now() >= deadline {
            return Err(not_ready(&said));
        }
        sleep(ASK).await;
    }
}

fn not_ready(step: &str) -> Failure {
    Failure::because(Code::NotReady, step)
}

fn step(cluster: &Cluster) -> String {
    let why = cluster
        .status
        .last_error
        .as_ref()
        .map_or(String::new(), |e| format!(": {} ({})", e.cause, e.code));
    match cluster.status.state {
        State::Never if cluster.install_url.is_some() => {
            "waiting for the agent to enrol".to_owned()
        }
        State::Never => "enrolled; waiting for the agent's session".to_owned(),
        State::ApiUnreachable => {
            format!("the agent is connected, its API server does not answer{why}")
        }
        State::Lost => format!("the agent has lost its connection{why}"),
        State::Connected => "connected".to_owned(),
    }
}

/// Who has the cluster's identity and should not, and what to do about it.
fn clone_line(cluster: &Cluster) -> String {
    let Some(clone) = &cluster.clone else {
        return String::new();
    };
    let own = (cluster.uid.as_ref()).map_or(String::new(), |uid| format!(", this one's has {uid}"));
    format!(
        "\n{}: a clone was refused: last seen {}, from {}; its kube-system has the UID {}{own}\nnext:  {}\n",
        Code::IdentityCloned,
        output::time(clone.last_seen),
        clone.from,
        clone.uid,
        Code::IdentityCloned.next_step()
    )
}

/// Clusters whose agents work by an older configuration than they should.
async fn lagging(hub: &HubClient) -> Result<BTreeSet<ClusterId>, Failure> {
    let all: List<Configured> = hub.get("/v1/agents").await?;
    let lagging = all.items.into_iter().filter(|it| it.lags);
    Ok(lagging.map(|it| it.cluster).collect())
}

fn table(clusters: &[Cluster], lagging: &BTreeSet<ClusterId>) -> String {
    let row = |c: &Cluster| {
        let error = c
            .status
            .last_error
            .as_ref()
            .filter(|_| c.status.state != State::Connected);
        [
            c.id.to_string(),
            c.display_name.clone(),
            c.tenant.to_string(),
            c.status.state.to_string(),
            output::time(c.status.since),
            if lagging.contains(&c.id) { "lags" } else { "" }.to_owned(),
            match (error, &c.clone) {
                (Some(e), _) => format!("{}: {}", e.code, e.cause),
                (None, Some(clone)) => format!(
                    "{}: a clone was refused, last seen {}",
                    Code::IdentityCloned,
                    output::time(clone.last_seen)
                ),
                (None, None) => String::new(),
            },
        ]
    };
    output::table(
        [
            "ID",
            "NAME",
            "TENANT",
            "STATE",
            "SINCE",
            "CONFIG",
            "LAST ERROR",
        ],
        clusters.iter().map(row),
    )
}
