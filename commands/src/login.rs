//! `fairlead login`, `logout` and `hub`.

mod terminal;

use fairlead_api::{Code, Failure, HubUrl, resources::HubInfo};
use fairlead_client::{
    Environment, HubClient, HubError, files,
    logins::{self, SavedLogin, SavedLogins},
};
use serde_json::json;

use crate::{
    args,
    output::{self, TableColumn},
    runtime::block_on,
};

pub(crate) fn run(args: &args::Login, environment: &Environment) -> Result<(), Failure> {
    let token = match &args.token_file {
        Some(file) => files::token(file)?,
        None => block_on(terminal::secret(&format!("Token for {}: ", args.url)))??,
    };
    let ca = match &args.ca_file {
        Some(file) => Some(files::read(file)?),
        None => logins::load(environment)?
            .remove(Some(&args.url))
            .and_then(|it| it.ca),
    };
    let client = HubClient::new(
        args.url.clone(),
        token.clone(),
        ca.clone(),
        environment.proxy()?,
    )?;
    // Only a login that works is stored.
    let info: HubInfo = block_on(client.get("/v1/hub"))?.map_err(|error| match error {
        HubError::TokenRejected(failure) => {
            failure.next("Ask an admin of the hub for a token (`fairlead token create`).")
        }
        other => other.into(),
    })?;
    let hub = SavedLogin {
        url: args.url.clone(),
        token,
        ca,
        dev: None,
    };
    logins::add_login(environment, hub)?;
    Ok(output::print(&format!(
        "Logged in to {} as {} (hub {}).\n",
        args.url, info.caller, info.version
    ))?)
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
    Ok(output::print(&format!(
        "Forgot the token for {}; it stays valid until it expires or is revoked.{now}\n",
        hub.url
    ))?)
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
