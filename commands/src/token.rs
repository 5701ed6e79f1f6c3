//! `fairlead token` and its subcommands.

mod exchange;
pub(crate) mod local;

use fairlead_api::{
    ClusterId, Code, Failure, TenantId,
    resources::{ApiToken, CreateToken, CreatedToken, HandOverToken, List},
};
use fairlead_client::{Environment, HubClient, lookup::id_of, query_of};
use secrecy::ExposeSecret;

use crate::{
    args, bulk,
    confirm::confirm,
    output::{self, Cell, TableColumn},
    runtime::block_on,
    tenant_filter::check_tenant,
};

pub(crate) fn run(
    command: args::TokenArgs,
    environment: &Environment,
    create_locally: local::CreateLocally,
) -> Result<(), Failure> {
    let command = match local::run(command, environment, create_locally)? {
        Some(command) => command,
        None => return Ok(()),
    };
    let command = match command {
        args::TokenArgs::Exchange {
            issuer_token_file,
            hub,
            output,
        } => return exchange::run(issuer_token_file, hub.as_ref(), &output, environment),
        command => command,
    };
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::TokenArgs::Create {
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
                    ttl_seconds: ttl.map(|it| it.0.as_secs()),
                };
                let created: CreatedToken = hub.post("/v1/tokens", &create).await?;
                Ok::<_, Failure>(output::show(&output.output, &created, created_text)?)
            }
            args::TokenArgs::List(asked) => {
                check_tenant(&hub, asked.tenant.as_ref()).await?;
                let path = format!("/v1/tokens?{}", query(&asked));
                let mut tokens: List<ApiToken> = hub.get(&path).await?;
                tokens
                    .items
                    .sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
                let format = &asked.output.output;
                Ok(output::show_list(
                    format,
                    &tokens,
                    "tokens",
                    &columns(),
                    cells,
                )?)
            }
            args::TokenArgs::Exchange { .. } => Ok(()),
            args::TokenArgs::HandOver { name, to } => hand_over(&hub, &name, &to).await,
            args::TokenArgs::Delete { names, yes } => delete(&hub, &names, yes).await,
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

/// Cluster or tenant of a token.
fn on(cluster: Option<&ClusterId>, tenant: Option<&TenantId>) -> String {
    match (cluster, tenant) {
        (Some(cluster), _) => cluster.to_string(),
        (None, Some(tenant)) => tenant.to_string(),
        (None, None) => "all".to_owned(),
    }
}

/// Hands a token over. Names of tokens become ids; the hub knows `me` and the names of people.
async fn hand_over(hub: &HubClient, name: &str, to: &str) -> Result<(), Failure> {
    let known: List<ApiToken> = hub.get("/v1/tokens").await?;
    let token = named(&known.items, name)?;
    let to = match named(&known.items, to) {
        Ok(owner) => owner.id.clone(),
        Err(failure) if failure.code == Code::Invalid => return Err(failure),
        Err(_) => to.to_owned(),
    };
    let path = format!("/v1/tokens/{}/owner", token.id);
    let given: ApiToken = hub.put(&path, &HandOverToken { to }).await?;
    let owner = given.owner.as_ref().map_or("the hub", |it| &it.name);
    Ok(output::print(&format!(
        "{} ({}) is owned by {owner} and ends {}.\n",
        given.id,
        given.name,
        output::time(given.expires)
    ))?)
}

async fn delete(hub: &HubClient, names: &[String], yes: bool) -> Result<(), Failure> {
    let known: List<ApiToken> = hub.get("/v1/tokens").await?;
    let mut tokens: Vec<&ApiToken> = Vec::new();
    for name in names {
        let token = named(&known.items, name)?;
        if !tokens.iter().any(|it| it.id == token.id) {
            tokens.push(token);
        }
    }
    let shown = tokens.iter().map(|it| format!("{} ({})", it.id, it.name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let question = match tokens.len() {
        1 => format!("This revokes token {shown}. Continue?"),
        _ => format!("This revokes the tokens {shown}. Continue?"),
    };
    confirm(yes, &question)?;
    let mut revoked = bulk::Outcome::default();
    for token in &tokens {
        let done = hub.delete(&format!("/v1/tokens/{}", token.id)).await;
        if revoked.add("revoked", &token.id, done)?.is_break() {
            break;
        }
    }
    revoked.end("revoked", tokens.len())
}

/// Finds a token by id, else by unique name.
fn named<'a>(tokens: &'a [ApiToken], name: &str) -> Result<&'a ApiToken, Failure> {
    if let Some(token) = tokens.iter().find(|it| it.id == name) {
        return Ok(token);
    }
    let named = tokens.iter().filter(|it| it.name == name);
    match named.collect::<Vec<_>>().as_slice() {
        [one] => Ok(one),
        [] => {
            let detail = format_args!("no token has the id or name {name:?}");
            let failure = Failure::because(Code::NotFound, detail);
            Err(failure.next("List the tokens with `fairlead token list`."))
        }
        several => {
            let ids: Vec<_> = several.iter().map(|it| it.id.as_str()).collect();
            let ids = ids.join(", ");
            let detail = format_args!("{name:?} is the name of several tokens: {ids}");
            let failure = Failure::because(Code::Invalid, detail);
            Err(failure.next("Give the id instead of the name."))
        }
    }
}

fn columns() -> [TableColumn; 11] {
    [
        TableColumn::id("NAME"),
        TableColumn::key("ID"),
        TableColumn::word("ROLE"),
        TableColumn::id("ON"),
        TableColumn::id("OWNER").spare(2),
        TableColumn::word("LAST USED"),
        TableColumn::word("EXPIRES IN"),
        TableColumn::word("AGE").spare(1),
        TableColumn::word("EXPIRES").wide(),
        TableColumn::text("MADE BY").wide(),
        TableColumn::text("FALLEN").wide(),
    ]
}

/// Role of a token; of an exchanged one also the others, and their namespaces.
fn roles(token: &ApiToken) -> String {
    let roles = token
        .grants
        .iter()
        .map(|it| match it.namespaces.is_empty() {
            true => it.role.to_string(),
            false => format!("{} ({})", it.role, it.namespaces.join(",")),
        });
    match token.grants.is_empty() {
        true => token.role.to_string(),
        false => roles.collect::<Vec<_>>().join(", "),
    }
}

fn cells(token: &ApiToken) -> [Cell; 11] {
    [
        token.name.clone().into(),
        token.id.clone().into(),
        roles(token).into(),
        on(token.cluster.as_ref(), token.tenant.as_ref()).into(),
        token.owner.as_ref().map(|it| it.name.clone()).into(),
        token.last_used.map_or_else(|| "never".into(), Cell::Since),
        match token.fallen {
            Some(_) => "fallen".into(),
            None => Cell::Until(token.expires),
        },
        Cell::Since(token.created),
        output::time(token.expires).into(),
        token.created_by.clone().into(),
        token.fallen.clone().into(),
    ]
}

#[cfg(test)]
mod tests {
    use fairlead_api::resources::Role;
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn token_is_found_by_id_or_unique_name() {
        let token = |id: &str, name: &str| ApiToken {
            id: id.to_owned(),
            name: name.to_owned(),
            role: Role::Viewer,
            tenant: None,
            cluster: None,
            created: OffsetDateTime::UNIX_EPOCH,
            expires: OffsetDateTime::UNIX_EPOCH,
            created_by: None,
            owner: None,
            exchanged: false,
            grants: Vec::new(),
            last_used: None,
            fallen: None,
        };
        let all = [token("k-1", "ci"), token("k-2", "ann"), token("k-3", "ann")];
        assert_eq!(named(&all, "ci").unwrap().id, "k-1");
        assert_eq!(named(&all, "k-3").unwrap().id, "k-3");
        let several = named(&all, "ann").unwrap_err();
        assert!(several.cause.contains("k-2, k-3"), "{several}");
        assert_eq!(several.code, Code::Invalid);
        assert_eq!(named(&all, "k-9").unwrap_err().code, Code::NotFound);
    }
}
