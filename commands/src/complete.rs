//! Shell completion: words of the command line, and ids and names from the hub. It is never slow and prints no errors: a hub
//! that does not answer in time yields no candidates.

use std::{ffi::OsStr, time::Duration};

use clap_complete::{
    CompletionCandidate, Shell,
    env::{EnvCompleter, Shells},
};
use fairlead_api::{
    Code, Failure, RolloutId, TimeSpan, percent,
    resources::{ApiToken, Cluster, List, Tenant},
};
use fairlead_client::{Environment, HubClient, logins};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    output::{self, FORMATS},
    runtime::block_on,
};

/// Environment variable with which a completion script calls this program.
pub const VARIABLE: &str = "FAIRLEAD_COMPLETE";
/// Environment variable with another deadline of the hub's answer than [`HUB_DEADLINE`].
const DEADLINE_VARIABLE: &str = "FAIRLEAD_COMPLETE_TIMEOUT";
/// Deadline of the hub's answer.
const HUB_DEADLINE: Duration = Duration::from_millis(800);
/// Limit of completion candidates.
const MAX_CANDIDATES: usize = 200;

/// Prints the completion script of a shell.
///
/// # Errors
///
/// The shell is not supported, or the script cannot be written.
pub fn script(shell: Shell) -> Result<(), Failure> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer: &dyn EnvCompleter = completer.ok_or(Code::NotFound)?;
    let mut script = Vec::new();
    let name = "fairlead";
    let written = completer.write_registration(VARIABLE, name, name, name, &mut script);
    written.map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}

/// Ids and names of clusters.
pub(crate) fn clusters(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = current.to_str() else {
        return Vec::new();
    };
    let path = searched(&format!("/clusters?limit={MAX_CANDIDATES}"), typed);
    let found: Vec<Cluster> = get(&path).unwrap_or_default();
    let candidates = found.into_iter().filter_map(|cluster| {
        let (id, name) = (cluster.id.to_string(), cluster.display_name);
        if id.starts_with(typed) {
            Some(candidate(id, name))
        } else {
            name.starts_with(typed).then(|| candidate(name, id))
        }
    });
    candidates.collect()
}

/// Ids of tenants.
pub(crate) fn tenants(current: &OsStr) -> Vec<CompletionCandidate> {
    let path = searched("/tenants?limit=1000", current.to_str().unwrap_or_default());
    let found: Vec<Tenant> = get(&path).unwrap_or_default();
    let named = found
        .into_iter()
        .map(|it| (it.id.to_string(), it.display_name));
    starting_with(current, named)
}

/// Ids of API tokens.
pub(crate) fn tokens(current: &OsStr) -> Vec<CompletionCandidate> {
    let path = searched(
        "/v1/tokens?limit=1000",
        current.to_str().unwrap_or_default(),
    );
    let found: Option<List<ApiToken>> = get(&path);
    let found = found.into_iter().flat_map(|list| list.items);
    starting_with(current, found.map(|token| (token.id, token.name)))
}

/// Ids of bundles.
pub(crate) fn bundles(current: &OsStr) -> Vec<CompletionCandidate> {
    ids("/v1/bundles", current)
}

/// Ids of groups of clusters.
pub(crate) fn groups(current: &OsStr) -> Vec<CompletionCandidate> {
    ids("/v1/groups", current)
}

/// Ids of sources.
pub(crate) fn sources(current: &OsStr) -> Vec<CompletionCandidate> {
    ids("/v1/sources", current)
}

/// Ids of bundles, and of rollouts after their prefix.
pub(crate) fn rollout_targets(current: &OsStr) -> Vec<CompletionCandidate> {
    let typed = current.to_str().unwrap_or_default();
    match typed.starts_with(RolloutId::PREFIX) {
        true => ids("/v1/rollouts", current),
        false => ids("/v1/bundles", current),
    }
}

/// Ids of upgrades of agents, latest first.
pub(crate) fn upgrades(current: &OsStr) -> Vec<CompletionCandidate> {
    ids("/v1/agent-upgrades", current)
}

/// Ids of runs, latest first.
pub(crate) fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    ids("/v1/runs", current)
}

/// Ids in a list of the hub.
fn ids(path: &str, current: &OsStr) -> Vec<CompletionCandidate> {
    let found: Option<List<Value>> = get(&format!("{path}?limit=1000"));
    let found = found.into_iter().flat_map(|list| list.items);
    let named = found.filter_map(|item| {
        let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        let about = text("bundle").or_else(|| text("tenant"));
        Some((text("id")?, about.unwrap_or_default()))
    });
    starting_with(current, named)
}

/// URLs of the hubs with a login.
pub(crate) fn hubs(current: &OsStr) -> Vec<CompletionCandidate> {
    let known = logins::load(&Environment::of_process()).unwrap_or_default();
    let urls = known.urls().map(|url| (url.to_string(), String::new()));
    starting_with(current, urls)
}

/// Values of `-o`.
pub fn formats(current: &OsStr) -> Vec<CompletionCandidate> {
    let named = FORMATS.into_iter().map(|it| (it.to_owned(), String::new()));
    starting_with(current, named)
}

/// Adds the typed text as a filter; an empty text would be invalid.
fn searched(list: &str, typed: &str) -> String {
    match typed {
        "" => list.to_owned(),
        typed => format!("{list}&text={}", percent::encode(typed)),
    }
}

fn starting_with(
    current: &OsStr,
    named: impl Iterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let typed = current.to_str().unwrap_or_default();
    let fitting = named.filter(|(word, _)| word.starts_with(typed));
    fitting
        .take(MAX_CANDIDATES)
        .map(|(word, about)| candidate(word, about))
        .collect()
}

fn candidate(word: String, about: String) -> CompletionCandidate {
    let help = (!about.is_empty() && about != word).then(|| about.into());
    CompletionCandidate::new(word).help(help)
}

/// Response of the hub; `None` on any failure.
fn get<T: DeserializeOwned>(path: &str) -> Option<T> {
    let environment = Environment::of_process();
    let hub = HubClient::from_environment(&environment).ok()?;
    let deadline = environment
        .get(DEADLINE_VARIABLE)
        .and_then(|text| text.parse::<TimeSpan>().ok())
        .map_or(HUB_DEADLINE, |span| span.0);
    let response = async { tokio::time::timeout(deadline, hub.get(path)).await };
    block_on(response).ok()?.ok()?.ok()
}
