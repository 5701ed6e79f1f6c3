//! `fairlead token exchange`: a token of the hub for one of a CI's issuer.

use std::path::PathBuf;

use fairlead_api::{Code, Failure, HubUrl, resources::ExchangedToken};
use fairlead_client::{Environment, ExchangeStore, HubClient};
use secrecy::ExposeSecret;

use crate::{args, output, runtime::block_on};

pub(super) fn run(
    file: Option<PathBuf>,
    hub: Option<&HubUrl>,
    format: &args::OutputArgs,
    environment: &Environment,
) -> Result<(), Failure> {
    let missing = || {
        let failure = Failure::because(Code::Usage, "no token of an issuer is given");
        failure.next("Add `--issuer-token-file FILE`, or set FAIRLEAD_ISSUER_TOKEN_FILE.")
    };
    let store = ExchangeStore::of(environment, file).ok_or_else(missing)?;
    let issuer_token = store.issuer_token()?;
    let hub = HubClient::exchanging(environment, hub, store)?;
    let exchanged = block_on(hub.exchange_token(&issuer_token))??;
    Ok(output::show(&format.output, &exchanged, text)?)
}

fn text(exchanged: &ExchangedToken) -> String {
    format!("{}\n", exchanged.access_token.expose_secret())
}
