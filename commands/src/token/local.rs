//! `fairlead token create --data`: creates a token on the hub's machine, for an operator without a valid token.

use fairlead_api::{
    Code, Failure,
    resources::{CreateToken, CreatedToken},
};
use fairlead_client::Environment;

use super::created_text;
use crate::{args, output};

/// Creator of a token in the data of a hub on this machine.
pub type CreateLocally =
    fn(args::HubPlace, CreateToken, &Environment) -> Result<CreatedToken, Failure>;

/// Creates the token if the command has `--data`; else returns the command.
pub(super) fn run(
    command: args::TokenArgs,
    environment: &Environment,
    create: CreateLocally,
) -> Result<Option<args::TokenArgs>, Failure> {
    let args::TokenArgs::Create {
        name,
        role,
        tenant,
        cluster,
        ttl,
        local:
            args::LocalHub {
                data: Some(data),
                store,
                store_password_file,
            },
        output,
    } = command
    else {
        return Ok(Some(command));
    };
    // Without the hub's API, only ids of clusters are supported.
    let cluster = cluster.map(|id| id.parse()).transpose();
    let cluster = cluster.map_err(|error| {
        let detail = format_args!("--cluster: {error}; with --data it is an id");
        Failure::because(Code::Usage, detail)
    })?;
    let asked = CreateToken {
        name,
        role,
        tenant,
        cluster,
        ttl_seconds: ttl.map(|it| it.0.as_secs()),
    };
    let place = args::HubPlace {
        data,
        store: store.or_else(|| environment.get("FAIRLEAD_STORE").map(str::to_owned)),
        store_password_file,
    };
    let created = create(place, asked, environment)?;
    Ok(output::show(&output.output, &created, created_text).map(|()| None)?)
}
