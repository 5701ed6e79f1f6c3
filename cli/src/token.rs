//! `fairlead token`.

use fairlead_api::{
    Failure,
    resources::{ApiToken, CreateToken, CreatedToken, List},
};
use secrecy::ExposeSecret;

use crate::{args, environment::Environment, hub_client::HubClient, output, settings::block_on};

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
            args::Token::List(output) => {
                let tokens: List<ApiToken> = hub.get("/v1/tokens").await?;
                output::show(&output.output, &tokens, |tokens| table(&tokens.items))
            }
            args::Token::Delete { id } => {
                hub.delete(&format!("/v1/tokens/{id}")).await?;
                output::print(&format!("Revoked {id}.\n"))
            }
        }
    })?
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
