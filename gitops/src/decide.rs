//! Decides the next step of a key: a pure function of the desired state and of the objects in the cluster.
//!
//! A rotation runs in this order. Each line leaves a state in which the tool's key is registered:
//!
//! 1. the keyring has the previous key and the next one;
//! 2. the hub's record has both, and the Git server confirms them;
//! 3. the tool's Secret has the next key, and the tool reports a sync that began later;
//! 4. the record has the next key only, and the keyring is deleted.
//!
//! After a failed sync the keyring is marked, then the tool gets the previous key back.

use fairlead_api::gitops::AgentKeys;

use crate::{
    key::fingerprint,
    request::Desired,
    secrets::{Found, Keyring, ToolSecret},
    status::{Phase, Problem},
    sync::{Outcome, SourceStatus, Sync},
    tool::{KEYRING, Layout},
};

/// Objects in the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) secret: Found<ToolSecret>,
    pub(crate) keyring: Found<Keyring>,
    pub(crate) sync: Sync,
    /// Host keys that the tool accepts for the repository.
    pub(crate) known_hosts: String,
}

/// Next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to do.
    Rest(Phase, Option<Problem>),
    /// Makes the first key.
    CreateKey,
    /// Writes the host keys beside the key.
    WriteHosts,
    /// Replaces the keys of the hub's record.
    Register(AgentKeys),
    /// Makes the next key.
    PrepareNext,
    /// Gives the tool the next key.
    UseNext,
    /// Gives the tool the previous key back.
    UsePrevious,
    /// Requests a sync, named by the token.
    RequestSync(String),
    /// Puts the next key aside.
    MarkFailed(String),
    /// Ends a rotation.
    DeleteKeyring,
}

/// Next step for these objects.
pub(crate) fn decide(layout: &Layout, desired: &Desired, observed: &Observed) -> Step {
    let foreign = |name: &str| {
        let name = format!("{}/{name}", layout.namespace);
        Step::Rest(Phase::Stopped, Some(Problem::ForeignSecret(name)))
    };
    match (&observed.secret, &observed.keyring) {
        (Found::Foreign, _) => foreign(layout.secret),
        (_, Found::Foreign) => foreign(KEYRING),
        // The rotation has lost its Secret, and begins anew with another first key.
        (Found::Absent, Found::Own(_)) => Step::DeleteKeyring,
        (Found::Absent, Found::Absent) => Step::CreateKey,
        (Found::Own(secret), _) if is_elsewhere(desired, secret, observed) => Step::WriteHosts,
        (Found::Own(secret), Found::Absent) => settled(desired, secret, &observed.sync),
        (Found::Own(secret), Found::Own(keyring)) => {
            rotating(desired, secret, keyring, &observed.sync)
        }
    }
}

/// True with other host keys, or with another repository.
fn is_elsewhere(desired: &Desired, secret: &ToolSecret, observed: &Observed) -> bool {
    let url = secret.url.as_ref();
    observed.known_hosts != desired.known_hosts || url.is_some_and(|url| *url != desired.url)
}

/// Without a rotation.
fn settled(desired: &Desired, secret: &ToolSecret, sync: &Sync) -> Step {
    let current = only(&secret.key.public);
    if desired.keys != current {
        return Step::Register(current);
    }
    if is_outdated(desired, secret) {
        return Step::PrepareNext;
    }
    Step::Rest(Phase::Settled, sync_problem(desired, sync))
}

fn is_outdated(desired: &Desired, secret: &ToolSecret) -> bool {
    let algorithm = secret.key.public.split(' ').next();
    secret.key.rotation != desired.rotation || algorithm != Some(desired.key_type.algorithm())
}

fn sync_problem(desired: &Desired, sync: &Sync) -> Option<Problem> {
    if desired.known_hosts.is_empty() {
        return Some(Problem::NoHostKeys);
    }
    match sync {
        Sync::Source(SourceStatus {
            outcome: Outcome::Failed(message),
            ..
        }) => Some(Problem::of_sync(message)),
        Sync::Source(_) | Sync::NoSource => None,
    }
}

fn rotating(desired: &Desired, secret: &ToolSecret, keyring: &Keyring, sync: &Sync) -> Step {
    let (previous, next) = (&keyring.previous.public, &keyring.next.public);
    let is_next = secret.key.public == *next;
    if !is_next && secret.key.public != *previous {
        // A person has replaced the key.
        return Step::DeleteKeyring;
    }
    if let Some(failure) = &keyring.failure {
        return after_failure(desired, keyring, is_next, failure);
    }
    if is_next {
        return proving(desired, next, sync);
    }
    let both = AgentKeys {
        current: Some(previous.clone()),
        next: Some(next.clone()),
    };
    if desired.keys != both {
        return Step::Register(both);
    }
    let name = fingerprint(next).unwrap_or_default();
    if desired.registered || desired.confirmed_key.as_deref() == Some(&name) {
        return Step::UseNext;
    }
    Step::Rest(Phase::Registering, Some(Problem::NotRegistered(name)))
}

/// With the next key in the tool's Secret.
fn proving(desired: &Desired, next: &str, sync: &Sync) -> Step {
    let current = only(next);
    if desired.keys == current {
        return Step::DeleteKeyring;
    }
    let token = sync_token(next);
    let source = match sync {
        Sync::NoSource => return Step::Register(current),
        Sync::Source(source) => source,
    };
    if source.requested.as_deref() != Some(&token) {
        return Step::RequestSync(token);
    }
    let is_handled = source.handled.as_deref() == Some(&token);
    match &source.outcome {
        Outcome::Succeeded if is_handled => Step::Register(current),
        Outcome::Failed(message) if is_handled => Step::MarkFailed(message.clone()),
        _ => Step::Rest(Phase::Proving, None),
    }
}

fn after_failure(desired: &Desired, keyring: &Keyring, is_next: bool, failure: &str) -> Step {
    if is_next {
        return Step::UsePrevious;
    }
    let current = only(&keyring.previous.public);
    if desired.keys != current {
        return Step::Register(current);
    }
    let next = &keyring.next;
    let is_same_request = next.rotation == desired.rotation
        && next.public.split(' ').next() == Some(desired.key_type.algorithm());
    if !is_same_request {
        return Step::DeleteKeyring;
    }
    let problem = Problem::RotationFailed(failure.to_owned());
    Step::Rest(Phase::Settled, Some(problem))
}

fn only(public: &str) -> AgentKeys {
    AgentKeys {
        current: Some(public.to_owned()),
        next: None,
    }
}

/// Name of the sync that proves a key. Each key has its own, so that a restart requests no second one.
pub(crate) fn sync_token(public: &str) -> String {
    format!("fairlead {}", fingerprint(public).unwrap_or_default())
}
