//! `fairlead cluster token`, and what lets an agent enrol.

use fairlead_api::{
    Failure,
    resources::{BootstrapToken, JoinInfo, List},
};
use secrecy::ExposeSecret;

use super::find;
use crate::{
    args,
    confirm::confirm,
    find::check_tenant,
    hub_client::HubClient,
    output::{self, Cell, Column},
};

pub(super) async fn run(hub: &HubClient, command: args::ClusterToken) -> Result<(), Failure> {
    let path = async |name: &str| -> Result<String, Failure> {
        let cluster = find(hub, name).await?;
        Ok(format!("/v1/clusters/{}/bootstrap-token", cluster.id))
    };
    match command {
        args::ClusterToken::Renew { name, yes, output } => {
            let path = path(&name).await?;
            let question =
                format!("This makes a new bootstrap token of {name}; the older one dies. Go on?");
            confirm(yes, &question)?;
            let join: JoinInfo = hub.post(&path, &serde_json::json!({})).await?;
            output::show(&output.output, &join, install_command)
        }
        args::ClusterToken::Show { name, output } => {
            let join: JoinInfo = hub.get(&path(&name).await?).await?;
            output::show(&output.output, &join, install_command)
        }
        args::ClusterToken::Revoke { name, yes } => {
            let path = path(&name).await?;
            let question = format!(
                "This takes the bootstrap token of {name} back: who comes with it is refused. Go on?"
            );
            confirm(yes, &question)?;
            hub.delete(&path).await?;
            output::print(&format!("Revoked the bootstrap token of {name}.\n"))
        }
        args::ClusterToken::List(asked) => {
            check_tenant(hub, asked.tenant.as_ref()).await?;
            let path = format!("/v1/bootstrap-tokens?{}", crate::token::query(&asked));
            let tokens: List<BootstrapToken> = hub.get(&path).await?;
            let things = "bootstrap tokens";
            output::show_list(&asked.output.output, &tokens, things, &columns(), cells)
        }
    }
}

fn columns() -> [Column; 6] {
    [
        Column::key("CLUSTER"),
        Column::id("TENANT").spare(2),
        Column::word("STATE"),
        Column::word("EXPIRES IN").spare(3),
        Column::text("MADE BY").spare(1),
        Column::word("EXPIRES").wide(),
    ]
}

fn cells(token: &BootstrapToken) -> [Cell; 6] {
    [
        token.cluster.to_string().into(),
        token.tenant.to_string().into(),
        format!("{:?}", token.state).into(),
        Cell::Until(token.expires),
        token.made_by.clone().into(),
        output::time(token.expires).into(),
    ]
}

pub(super) fn install_command(join: &JoinInfo) -> String {
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
