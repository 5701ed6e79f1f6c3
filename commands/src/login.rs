//! `fairlead login`, `logout` and `hub`.

mod sign_in;
mod terminal;

use fairlead_api::{
    Code, Failure, HubUrl,
    resources::{HubInfo, SignInOptions},
};
use fairlead_client::{
    Credential, Environment, HubClient, HubError, files,
    logins::{self, SavedLogin, SavedLogins},
    sign_in::{SignInStore, StoredSignIn},
};
use secrecy::SecretString;
use serde_json::json;

use crate::{
    args,
    output::{self, TableColumn},
    runtime::block_on,
};

pub(crate) fn run(args: &args::Login, environment: &Environment) -> Result<(), Failure> {
    let ca = match &args.ca_file {
        Some(file) => Some(files::read(file)?),
        None => logins::load(environment)?
            .remove(Some(&args.url))
            .and_then(|it| it.ca),
    };
    let granted = match &args.token_file {
        Some(file) => Granted::Token(files::token(file)?),
        None if args.token => Granted::Token(prompt(&args.url)?),
        None => block_on(grant(args, ca.clone(), environment))??,
    };
    let token = match &granted {
        Granted::Token(token) => token.clone(),
        Granted::SignIn(sign_in) => sign_in.token().clone(),
    };
    let client = HubClient::new(args.url.clone(), token, ca.clone(), environment.proxy()?)?;
    // Only a login that works is stored.
    let info: HubInfo = block_on(client.get("/v1/hub"))?.map_err(|error| match error {
        HubError::TokenRejected(failure) => {
            failure.next("Ask an admin of the hub for a token (`fairlead token create`).")
        }
        other => other.into(),
    })?;
    let (token, issuer) = match granted {
        Granted::Token(token) => (Some(token), None),
        Granted::SignIn(sign_in) => {
            SignInStore::of(environment)?.save(&sign_in)?;
            (None, Some(sign_in.issuer().url.clone()))
        }
    };
    let hub = SavedLogin {
        url: args.url.clone(),
        token,
        issuer,
        ca,
        dev: None,
    };
    logins::add_login(environment, hub)?;
    Ok(output::print(&format!(
        "Logged in to {} as {} (hub {}).\n",
        args.url, info.caller, info.version
    ))?)
}

/// Credential of a new login.
enum Granted {
    Token(SecretString),
    SignIn(Box<StoredSignIn>),
}

/// Signs in through an issuer; a hub without one gets a token from the terminal.
async fn grant(
    args: &args::Login,
    ca: Option<String>,
    environment: &Environment,
) -> Result<Granted, Failure> {
    let nobody = Credential::Token(None);
    let open = HubClient::with_credential(args.url.clone(), nobody, ca, environment.proxy()?)?;
    let options: SignInOptions = open.get("/v1/sign-in").await?;
    if options.issuers.is_empty() && args.issuer.is_none() && !args.device {
        let token = terminal::secret(&question(&args.url)).await?;
        return Ok(Granted::Token(token));
    }
    let issuer = sign_in::choose(options, args.issuer.as_deref(), &args.url)?;
    let sign_in = sign_in::sign_in(args, issuer, environment).await?;
    Ok(Granted::SignIn(Box::new(sign_in)))
}

fn prompt(url: &HubUrl) -> Result<SecretString, Failure> {
    block_on(terminal::secret(&question(url)))?
}

fn question(url: &HubUrl) -> String {
    format!("Token for {url}: ")
}

pub(crate) fn logout(args: &args::Logout, environment: &Environment) -> Result<(), Failure> {
    let mut hubs = logins::load(environment)?;
    let Some(hub) = hubs.remove(args.url.as_ref()) else {
        return Err(not_known(args.url.as_ref()));
    };
    logins::save(environment, &hubs)?;
    let now = match hubs.urls().next() {
        Some(url) if args.url.as_ref() != Some(url) => format!(" The current hub is {url}."),
        _ => String::new(),
    };
    if hub.issuer.is_some() {
        let outcome = end_sign_in(&hub.url, environment)?;
        return Ok(output::print(&format!(
            "Signed out of {}{outcome}.{now}\n",
            hub.url
        ))?);
    }
    Ok(output::print(&format!(
        "Forgot the token for {}; it stays valid until it expires or is revoked.{now}\n",
        hub.url
    ))?)
}

/// Removes a stored sign-in and revokes its refresh token; a failed revocation is reported only.
fn end_sign_in(hub: &HubUrl, environment: &Environment) -> Result<&'static str, Failure> {
    let store = SignInStore::of(environment)?;
    let Some(sign_in) = store.remove(hub)? else {
        return Ok("");
    };
    match block_on(store.revoke(&sign_in))? {
        Ok(true) => Ok(", and revoked the refresh token"),
        Ok(false) => Ok("; the issuer has no revocation, so its session ends by its own rules"),
        Err(error) => {
            output::note(&format!(
                "The issuer did not revoke the refresh token: {error}."
            ));
            Ok("; the refresh token may still be valid")
        }
    }
}

fn not_known(url: Option<&HubUrl>) -> Failure {
    match url {
        None => Code::NotLoggedIn.into(),
        Some(url) => {
            let failure =
                Failure::with_cause(Code::NotLoggedIn, format!("no login for {url} is known"));
            failure.next("List the logins with `fairlead hub list`, or run `fairlead login URL`.")
        }
    }
}

pub(crate) fn hubs(command: &args::HubsArgs, environment: &Environment) -> Result<(), Failure> {
    let mut hubs = logins::load(environment)?;
    if let Some(url) = environment.get("FAIRLEAD_URL") {
        eprintln!("FAIRLEAD_URL is set to {url} and takes precedence over the current hub.");
    }
    match command {
        args::HubsArgs::Use { url } => {
            if !hubs.choose(url) {
                return Err(not_known(Some(url)));
            }
            logins::save(environment, &hubs)?;
            Ok(output::print(&format!("The current hub is {url}.\n"))?)
        }
        args::HubsArgs::List(output) => list(&hubs, &output.output),
    }
}

fn list(hubs: &SavedLogins, format: &output::OutputFormat) -> Result<(), Failure> {
    if hubs.hub.is_empty() {
        eprintln!("No hubs: log in with `fairlead login URL`.");
    }
    let items = hubs.hub.iter().enumerate();
    let items =
        items.map(|(at, hub)| json!({ "url": hub.url, "current": at == 0, "dev": hub.dev }));
    let listed = json!({ "items": items.collect::<Vec<_>>() });
    let names = |_: &_| hubs.urls().map(|url| format!("{url}\n")).collect();
    let columns = [
        TableColumn::word("CURRENT"),
        TableColumn::key("URL"),
        TableColumn::text("DATA FOLDER"),
    ];
    let row = |(at, hub): (usize, &SavedLogin)| {
        let mark = if at == 0 { "*" } else { "" };
        let dev = hub.dev.as_ref().map(|data| data.display().to_string());
        [mark.into(), hub.url.to_string().into(), dev.into()]
    };
    Ok(output::show_named(
        format,
        &listed,
        names,
        |_| match hubs.hub.as_slice() {
            [] => String::new(),
            hubs => output::table(format, &columns, hubs.iter().enumerate().map(row)),
        },
    )?)
}
