//! `fairlead token`.

use fairlead_api::{
    Failure, TenantId,
    resources::{ApiToken, CreateToken, CreatedToken, List, WhoAmI},
};
use secrecy::ExposeSecret;

use crate::{
    args, cluster::id_of, confirm::confirm, environment::Environment, find::query_of,
    hub_client::HubClient, output, settings::block_on,
};

pub(crate) fn run(command: args::Token, environment: &Environment) -> Result<(), Failure> {
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
                output::show(&output.output, &created, |created| {
                    format!("{}\n", created.token.expose_secret())
                })
            }
            args::Token::List(asked) => {
                let path = format!("/v1/tokens?{}", query(&asked));
                let tokens: List<ApiToken> = hub.get(&path).await?;
                output::show(&asked.output.output, &tokens, |tokens| table(&tokens.items))
            }
            args::Token::Whoami(output) => {
                let who: WhoAmI = hub.get("/v1/whoami").await?;
                output::show(&output.output, &who, who_table)
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

pub(crate) fn query(asked: &args::TokenList) -> String {
    query_of([
        ("tenant", asked.tenant.as_ref().map(TenantId::as_str)),
        ("text", asked.text.as_deref()),
    ])
}

fn who_table(who: &WhoAmI) -> String {
    let on = match (&who.cluster, &who.tenant) {
        (Some(cluster), _) => cluster.to_string(),
        (None, Some(tenant)) => tenant.to_string(),
        (None, None) => "all".to_owned(),
    };
    let none = || "(not in clusters)".to_owned();
    let row = [
        who.name.clone(),
        who.role.to_string(),
        on,
        who.user.clone().unwrap_or_else(none),
        who.group.clone().unwrap_or_default(),
    ];
    output::table(["NAME", "ROLE", "ON", "USER", "GROUP"], [row])
}

fn table(tokens: &[ApiToken]) -> String {
    let row = |t: &ApiToken| {
        let on = match (&t.cluster, &t.tenant) {
            (Some(cluster), _) => cluster.to_string(),
            (None, Some(tenant)) => tenant.to_string(),
            (None, None) => "all".to_owned(),
        };
        [
            t.id.clone(),
            t.name.clone(),
            t.role.to_string(),
            on,
            output::time(t.expires),
        ]
    };
    output::table(
        ["ID", "NAME", "ROLE", "ON", "EXPIRES"],
        tokens.iter().map(row),
    )
}
