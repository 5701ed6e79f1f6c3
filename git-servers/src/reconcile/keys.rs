//! Deploy keys as declared. Keys that nobody declared stay, except those that the hub added
//! before.

mod generated;

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::resources::{DeployKey, GeneratedKey};
use fairlead_repositories::{GitServerError, KnownRepo};

use super::{Reconciler, RepoWish};
use crate::provider::{FoundKey, FoundRepo};

/// Result for the deploy keys.
#[derive(Default)]
pub(super) struct ReconciledKeys {
    /// Names of the keys that the hub added.
    pub(super) names: BTreeSet<String>,
    /// Public halves of the generated ones.
    pub(super) generated: BTreeMap<String, GeneratedKey>,
}

/// Reconciles the deploy keys.
pub(super) async fn reconcile(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    wish: &RepoWish<'_>,
    corrected: &mut Vec<String>,
) -> Result<ReconciledKeys, GitServerError> {
    let (declared, known) = (&wish.desired.deploy_keys, wish.known);
    if declared.is_empty() && known.deploy_keys.is_empty() {
        return Ok(ReconciledKeys::default());
    }
    check_unique(declared)?;
    let provider = reconciler.provider;
    let found = provider.deploy_keys(repo).await;
    let found = found.map_err(|error| reconciler.error("reading the deploy keys", error))?;
    let generated = generated::resolve(wish, &found).await?;
    let declared = &with_public_halves(declared, &generated);
    // Removals are first: no server takes the same key twice.
    for key in &found {
        if !is_obsolete(key, &found, declared, known) {
            continue;
        }
        let action = format!("removing the deploy key {}", key.title);
        let removed = provider.remove_deploy_key(repo, &key.id).await;
        removed.map_err(|error| reconciler.error(&action, error))?;
        corrected.push(format!("deploy key {}", key.title));
    }
    for (name, key) in declared {
        if found.iter().any(|it| is_as_declared(it, name, key)) {
            continue;
        }
        let action = format!("adding the deploy key {name}");
        let added = provider.add_deploy_key(repo, name, key).await;
        added.map_err(|error| reconciler.error(&action, error))?;
        let correction = format!("deploy key {name}");
        if !corrected.contains(&correction) {
            corrected.push(correction);
        }
    }
    Ok(ReconciledKeys {
        names: declared.keys().cloned().collect(),
        generated,
    })
}

fn with_public_halves(
    declared: &BTreeMap<String, DeployKey>,
    generated: &BTreeMap<String, GeneratedKey>,
) -> BTreeMap<String, DeployKey> {
    let mut keys = declared.clone();
    for (name, public) in generated {
        if let Some(declared) = keys.get_mut(name) {
            declared.key.clone_from(&public.key);
        }
    }
    keys
}

/// True if a key must be removed: a changed or repeated one of a declared name, a declared key of
/// another name, or one that is no longer declared.
fn is_obsolete(
    key: &FoundKey,
    all: &[FoundKey],
    desired: &BTreeMap<String, DeployKey>,
    known: &KnownRepo,
) -> bool {
    if let Some(declared) = desired.get(&key.title) {
        let first = all
            .iter()
            .find(|it| is_as_declared(it, &key.title, declared));
        return first.is_none_or(|first| first.id != key.id);
    }
    let is_declared = (desired.values()).any(|it| is_same(&it.key, &key.key));
    is_declared || known.deploy_keys.contains(&key.title)
}

fn is_as_declared(found: &FoundKey, name: &str, declared: &DeployKey) -> bool {
    found.title == name
        && found.write_access == declared.write_access
        && is_same(&found.key, &declared.key)
}

/// True for the same key; comments do not count.
fn is_same(one: &str, other: &str) -> bool {
    let parts = |key: &str| {
        let mut words = key.split_ascii_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    parts(one).is_some() && parts(one) == parts(other)
}

fn check_unique(declared: &BTreeMap<String, DeployKey>) -> Result<(), GitServerError> {
    let keys: Vec<_> = declared.iter().collect();
    for (index, (name, key)) in keys.iter().enumerate() {
        let mut later = keys.iter().skip(index + 1);
        if let Some((other, _)) = later.find(|(_, it)| is_same(&it.key, &key.key)) {
            let cause = format!("the deploy keys {name} and {other} are the same key");
            return Err(GitServerError::Rejected(cause));
        }
    }
    Ok(())
}
