//! `fairlead token`.

mod local;

use fairlead_api::{
    ClusterId, Failure, TenantId,
    resources::{ApiToken, CreateToken, CreatedToken, List, WhoAmI},
};
use secrecy::ExposeSecret;

use crate::{
    args,
    cluster::id_of,
    confirm::confirm,
    environment::Environment,
    find::{check_tenant, query_of},
    hub_client::HubClient,
    output::{self, Cell, Column, Format},
    settings::block_on,
};

pub(crate) fn run(command: args::Token, environment: &Environment) -> Result<(), Failure> {
    let command = match local::run(command, environment)? {
        Some(command) => command,
        None => return Ok(()),
    };
    let hub = HubClient::of(environment)?;
    block_on(async {
        match command {
            args::Token::Create {
                name,
                role,
                tenant,
                cluster,
                ttl,
                output,
                local: _,
            } => {
                let cluster = match cluster {
                    Some(name) => Some(id_of(&hub, &name).await?),
                    None => None,
                };
                let create = CreateToken {
                    name,
                    role,
                    tenant,
                    cluster,
                    ttl_seconds: Some(ttl.0.as_secs()),
                };
                let created: CreatedToken = hub.post("/v1/tokens", &create).await?;
                output::show(&output.output, &created, created_text)
            }
            args::Token::List(asked) => {
                check_tenant(&hub, asked.tenant.as_ref()).await?;
                let path = format!("/v1/tokens?{}", query(&asked));
                let mut tokens: List<ApiToken> = hub.get(&path).await?;
                tokens
                    .items
                    .sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
                output::show_list(&asked.output.output, &tokens, "tokens", &columns(), cells)
            }
            args::Token::Whoami(output) => {
                let who: WhoAmI = hub.get("/v1/whoami").await?;
                let format = &output.output;
                output::show(format, &who, |who| who_table(format, who))
            }
            args::Token::Delete { id, yes } => {
                let question = format!("This revokes token {id}: whoever uses it is out. Go on?");
                confirm(yes, &question)?;
                hub.delete(&format!("/v1/tokens/{id}")).await?;
                output::print(&format!("Revoked {id}.\n"))
            }
        }
    })?
}

fn created_text(created: &CreatedToken) -> String {
    format!("{}\n", created.token.expose_secret())
}

pub(crate) fn query(asked: &args::TokenList) -> String {
    query_of([
        ("tenant", asked.tenant.as_ref().map(TenantId::as_str)),
        ("text", asked.text.as_deref()),
    ])
}

fn who_table(format: &Format, who: &WhoAmI) -> String {
    let columns = [
        Column::id("NAME"),
        Column::word("ROLE"),
        Column::id("ON"),
        Column::text("USER"),
        Column::text("GROUP"),
    ];
    let user = who.user.as_deref().unwrap_or("(not in clusters)");
    let row = [
        who.name.clone().into(),
        who.role.to_string().into(),
        on(who.cluster.as_ref(), who.tenant.as_ref()).into(),
        user.into(),
        who.group.clone().into(),
    ];
    output::table(format, &columns, [row])
}

/// The one cluster or tenant that a token is for.
fn on(cluster: Option<&ClusterId>, tenant: Option<&TenantId>) -> String {
    match (cluster, tenant) {
        (Some(cluster), _) => cluster.to_string(),
        (None, Some(tenant)) => tenant.to_string(),
        (None, None) => "all".to_owned(),
    }
}

fn columns() -> [Column; 8] {
    [
        Column::text("NAME"),
        Column::key("ID"),
        Column::word("ROLE"),
        Column::id("ON"),
        Column::word("EXPIRES IN"),
        Column::word("AGE").spare(1),
        Column::word("EXPIRES").wide(),
        Column::text("MADE BY").wide(),
    ]
}

fn cells(token: &ApiToken) -> [Cell; 8] {
    [
        token.name.clone().into(),
        token.id.clone().into(),
        token.role.to_string().into(),
        on(token.cluster.as_ref(), token.tenant.as_ref()).into(),
        Cell::Until(token.expires),
        Cell::Since(token.created),
        output::time(token.expires).into(),
        token.made_by.clone().into(),
    ]
}
