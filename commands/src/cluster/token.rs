//! `fairlead cluster token`.

use fairlead_api::{
    Failure,
    resources::{BootstrapToken, JoinInfo, List},
    site::SiteChoices,
};
use fairlead_client::{HubClient, lookup::find};

use super::install::Install;
use crate::{
    args,
    confirm::confirm,
    output::{self, Cell, TableColumn},
    tenant_filter::check_tenant,
};

pub(super) async fn run(hub: &HubClient, command: args::ClusterToken) -> Result<(), Failure> {
    let path = async |name: &str| -> Result<String, Failure> {
        let cluster = find(hub, name).await?;
        Ok(format!("/v1/clusters/{}/bootstrap-token", cluster.id))
    };
    match command {
        args::ClusterToken::Renew { name, yes, output } => {
            let path = path(&name).await?;
            let question = format!(
                "This creates a new bootstrap token of {name} and revokes the previous one. Continue?"
            );
            confirm(yes, &question)?;
            let install = Install::of(hub).await?;
            let join: JoinInfo = hub.post(&path, &serde_json::json!({})).await?;
            install.show(&output.output, join, &SiteChoices::default())
        }
        args::ClusterToken::Show { name, output } => {
            let install = Install::of(hub).await?;
            let join: JoinInfo = hub.get(&path(&name).await?).await?;
            install.show(&output.output, join, &SiteChoices::default())
        }
        args::ClusterToken::Revoke { name, yes } => {
            let path = path(&name).await?;
            let question = format!(
                "This revokes the bootstrap token of {name}; no agent can enrol with it. Continue?"
            );
            confirm(yes, &question)?;
            hub.delete(&path).await?;
            Ok(output::print(&format!(
                "Revoked the bootstrap token of {name}.\n"
            ))?)
        }
        args::ClusterToken::List(asked) => {
            check_tenant(hub, asked.tenant.as_ref()).await?;
            let path = format!("/v1/bootstrap-tokens?{}", crate::token::query(&asked));
            let tokens: List<BootstrapToken> = hub.get(&path).await?;
            let things = "bootstrap tokens";
            Ok(output::show_list(
                &asked.output.output,
                &tokens,
                things,
                &columns(),
                cells,
            )?)
        }
    }
}

fn columns() -> [TableColumn; 6] {
    [
        TableColumn::key("CLUSTER"),
        TableColumn::id("TENANT").spare(2),
        TableColumn::word("STATE"),
        TableColumn::word("EXPIRES IN").spare(3),
        TableColumn::text("MADE BY").spare(1),
        TableColumn::word("EXPIRES").wide(),
    ]
}

fn cells(token: &BootstrapToken) -> [Cell; 6] {
    [
        token.cluster.to_string().into(),
        token.tenant.to_string().into(),
        format!("{:?}", token.state).into(),
        Cell::Until(token.expires),
        token.created_by.clone().into(),
        output::time(token.expires).into(),
    ]
}
