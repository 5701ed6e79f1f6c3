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
                ttl,
                output,
            } => {
                let create = CreateToken {
                    name,
                    role,
                    tenant,
                    ttl_seconds: Some(ttl.0.as_secs()),
                };
                let created: CreatedToken = hub.post("/api/v1/tokens", &create).await?;
                output::show(output.output, &created, |created| {
                    format!("{}\n", created.token.expose_secret())
                })
            }
            args::Token::List(output) => {
                let tokens: List<ApiToken> = hub.get("/api/v1/tokens").await?;
                output::show(output.output, &tokens, |tokens| table(&tokens.items))
            }
            args::Token::Delete { id } => {
                hub.delete(&format!("/api/v1/tokens/{id}")).await?;
                output::print(&format!("Revoked {id}.\n"))
            }
        }
    })?
}

fn table(tokens: &[ApiToken]) -> String {
    let row = |t: &ApiToken| {
        let tenant = t
            .tenant
            .as_ref()
            .map_or("all".to_owned(), ToString::to_string);
        [
            t.id.clone(),
            t.name.clone(),
            t.role.to_string(),
            tenant,
            output::time(t.expires),
        ]
    };
    output::table(
        ["ID", "NAME", "ROLE", "TENANT", "EXPIRES"],
        tokens.iter().map(row),
    )
}
