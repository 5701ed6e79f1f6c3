//! Host keys of Git servers: those of the settings, else those that the hub has read and a person has
//! confirmed by their fingerprints.

use std::{collections::BTreeSet, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use axum::{
    Json,
    extract::{Path, State},
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use fairlead_api::{
    Code, Failure,
    resources::{
        ConfirmHostKeys, GitServerList, GitServerStatus, HostKey, HostKeySource, Role,
        ScannedHostKeys,
    },
};
use fairlead_registry::{RegistryError, allow, by};
use fairlead_repositories::GitServer;
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody},
};
use fairlead_store::{Draft, View, model::ConfirmedHostKeys, whole_millis};
use serde_json::json;
use tracing::info;

use super::Repositories;

const CONFIRM: Right = Right::new("confirming host keys", &[Role::Admin]).on_all_tenants();

pub(super) fn routes(repositories: &Arc<Repositories>) -> ApiRoutes {
    const TAG: Tag = Tag::SYSTEM;
    const KEYS: &str = "/v1/git-servers/{name}/host-keys";
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                "/v1/git-servers",
                "listGitServers",
                "List the Git servers",
            )
            .needs(&[CONFIRM])
            .gives::<GitServerList>(200),
            list,
        )
        .route(
            RouteSpec::get(
                TAG,
                KEYS,
                "scanHostKeys",
                "Read the host keys of a Git server now, unconfirmed",
            )
            .needs(&[CONFIRM])
            .gives::<ScannedHostKeys>(200),
            scan,
        )
        .route(
            RouteSpec::post(
                TAG,
                KEYS,
                "confirmHostKeys",
                "Confirm host keys of a Git server for repositories without own ones",
            )
            .needs(&[CONFIRM])
            .takes::<ConfirmHostKeys>()
            .example(
                json!({ "fingerprints": ["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"] }),
            )
            .gives::<GitServerStatus>(200),
            confirm,
        )
        .with_state(Arc::clone(repositories))
}

/// Host keys for a repository without own ones.
pub(super) fn host_keys_of(view: &View, server: &dyn GitServer) -> Option<String> {
    let given = server.given_host_keys().map(str::to_owned);
    given.or_else(|| Some(view.host_keys(server.name())?.value.keys.clone()))
}

async fn list(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<GitServerList>> {
    allow(&caller, CONFIRM)?;
    let view = repositories.store.view();
    let servers = repositories.git_servers.iter();
    let items = servers
        .map(|server| status(&view, server.as_ref()))
        .collect();
    Ok(Json(GitServerList { items }))
}

fn status(view: &View, server: &dyn GitServer) -> GitServerStatus {
    let keys = host_keys_of(view, server);
    let source = match (server.given_host_keys(), &keys) {
        (Some(_), _) => HostKeySource::Settings,
        (None, Some(_)) => HostKeySource::Confirmed,
        (None, None) => HostKeySource::None,
    };
    let host_keys = keys.as_deref().map(described).unwrap_or_default();
    GitServerStatus {
        name: server.name().to_owned(),
        source,
        host_keys: host_keys.into_iter().map(|(key, _)| key).collect(),
    }
}

async fn scan(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
) -> Answer<Json<ScannedHostKeys>> {
    allow(&caller, CONFIRM)?;
    let found = scanned(server_of(&repositories, &name)?).await?;
    let found = described(&found).into_iter().map(|(key, _)| key).collect();
    Ok(Json(ScannedHostKeys { found }))
}

async fn confirm(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path(name): Path<String>,
    JsonBody(asked): JsonBody<ConfirmHostKeys>,
) -> Answer<Json<GitServerStatus>> {
    allow(&caller, CONFIRM)?;
    let server = server_of(&repositories, &name)?;
    let found = scanned(server).await?;
    let keys = confirmed(&found, &asked.fingerprints)?;
    let record = ConfirmedHostKeys {
        id: name,
        keys,
        confirmed: whole_millis(repositories.clock.now()),
        by: caller.name.clone(),
    };
    let decide = move |draft: &mut Draft| {
        draft.put_host_keys(record.clone());
        Ok::<_, RegistryError>(())
    };
    repositories.store.change(by(&caller), decide).await?;
    info!(
        server = server.name(),
        caller = caller.name,
        "host keys confirmed"
    );
    Ok(Json(status(&repositories.store.view(), server)))
}

fn server_of<'a>(
    repositories: &'a Repositories,
    name: &str,
) -> Result<&'a dyn GitServer, RegistryError> {
    let mut servers = repositories.git_servers.iter();
    let server = servers.find(|server| server.name() == name);
    let missing = || RegistryError::NoSuchGitServer(name.to_owned());
    server.map(AsRef::as_ref).ok_or_else(missing)
}

async fn scanned(server: &dyn GitServer) -> Result<String, RegistryError> {
    let found = server.scan_host_keys().await;
    found.map_err(|error| refused(Code::NoHostKeys, error.to_string()))
}

/// Lines with these fingerprints.
fn confirmed(found: &str, fingerprints: &[String]) -> Result<String, RegistryError> {
    let found = described(found);
    let wanted: BTreeSet<&str> = fingerprints.iter().map(String::as_str).collect();
    let missing = wanted
        .iter()
        .find(|wanted| !found.iter().any(|(key, _)| key.fingerprint == **wanted));
    match missing {
        Some(missing) => {
            let cause = format!("no key with the fingerprint {missing} was found");
            Err(refused(Code::OtherHostKeys, cause))
        }
        None if wanted.is_empty() => {
            let cause = "fingerprints: name one at least".to_owned();
            Err(refused(Code::Invalid, cause))
        }
        None => {
            let lines = found.into_iter();
            let lines = lines.filter(|(key, _)| wanted.contains(key.fingerprint.as_str()));
            Ok(lines.map(|(_, line)| format!("{line}\n")).collect())
        }
    }
}

fn refused(code: Code, cause: String) -> RegistryError {
    RegistryError::Refused(Box::new(Failure::because(code, cause)))
}

/// Keys of lines of `known_hosts`; lines in another form are left out.
fn described(lines: &str) -> Vec<(HostKey, &str)> {
    let keys = lines.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (_, kind, key) = (words.next()?, words.next()?, words.next()?);
        let hash = digest(&SHA256, &STANDARD.decode(key).ok()?);
        let fingerprint = format!("SHA256:{}", STANDARD_NO_PAD.encode(hash));
        let kind = kind.to_owned();
        Some((HostKey { kind, fingerprint }, line))
    });
    keys.collect()
}
