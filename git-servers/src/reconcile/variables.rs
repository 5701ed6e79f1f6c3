//! CI variables as declared. Variables that nobody declared stay, except those that the hub added
//! before. No text contains a value.

use std::collections::BTreeSet;

use fairlead_repositories::{DesiredRepo, DesiredVariable, GitServerError, KnownRepo};
use secrecy::ExposeSecret;

use super::Reconciler;
use crate::{
    api_calls::CallError,
    provider::{FoundRepo, FoundVariable, SetVariable},
    variable_values::VariableValues,
};

/// Shortest value that is removed from a server's message. Of shorter ones the whole message is
/// left out.
const MIN_REDACTED_BYTES: usize = 4;

/// Result of the reconciliation of all variables.
#[derive(Default)]
pub(super) struct ReconciledVariables {
    /// Names of those that the hub added.
    pub(super) names: BTreeSet<String>,
    pub(super) corrected: Vec<String>,
    /// Reasons for those without a usable value. They stay as they are on the server.
    pub(super) unmet: Vec<String>,
}

/// Reconciles the variables.
pub(super) async fn reconcile(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    desired: &DesiredRepo,
    known: &KnownRepo,
    values: &VariableValues<'_>,
) -> Result<ReconciledVariables, GitServerError> {
    let mut done = ReconciledVariables::default();
    if desired.ci_variables.is_empty() && known.ci_variables.is_empty() {
        return Ok(done);
    }
    let provider = reconciler.provider;
    let found = provider.variables(repo).await;
    let found = found.map_err(|error| reconciler.error("reading the CI variables", error))?;
    let is_declared = |it: &FoundVariable| {
        let mut names = desired.ci_variables.keys();
        names.any(|name| provider.variable_name(name) == it.name)
    };
    let was_added = |it: &FoundVariable| {
        let mut names = known.ci_variables.iter();
        names.any(|name| provider.variable_name(name) == it.name)
    };
    for old in found.iter().filter(|it| !is_declared(it) && was_added(it)) {
        remove(reconciler, repo, old, &mut done.corrected).await?;
    }
    for (name, variable) in &desired.ci_variables {
        match checked(reconciler, values, name, variable).await {
            Ok(set) => {
                set_one(reconciler, repo, &found, &set, &mut done.corrected).await?;
                done.names.insert(name.clone());
            }
            Err(reason) => {
                done.unmet.push(reason);
                // An earlier value of the hub is removed once nobody declares it.
                done.names.extend(known.ci_variables.get(name).cloned());
            }
        }
    }
    Ok(done)
}

/// The variable with its value, in the form of the server.
///
/// # Errors
/// The reason, without the value.
async fn checked(
    reconciler: &Reconciler<'_>,
    values: &VariableValues<'_>,
    name: &str,
    variable: &DesiredVariable,
) -> Result<SetVariable, String> {
    let cause = |cause: String| format!("the CI variable {name}: {cause}");
    let set = SetVariable {
        name: reconciler.provider.variable_name(name),
        value: values.of(name, &variable.source).await.map_err(cause)?,
        protected: variable.protected,
        masked: variable.masked,
        raw: variable.raw,
    };
    let checked = reconciler.provider.checked_variable(set);
    checked.map_err(|text| cause(text.to_owned()))
}

async fn remove(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    old: &FoundVariable,
    corrected: &mut Vec<String>,
) -> Result<(), GitServerError> {
    let action = format!("removing the CI variable {}", old.name);
    let removed = reconciler.provider.remove_variable(repo, old).await;
    removed.map_err(|error| reconciler.error(&action, error))?;
    corrected.push(format!("CI variable {}", old.name));
    Ok(())
}

async fn set_one(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    found: &[FoundVariable],
    set: &SetVariable,
    corrected: &mut Vec<String>,
) -> Result<(), GitServerError> {
    let provider = reconciler.provider;
    let correction = format!("CI variable {}", set.name);
    let mut same = None;
    // A variable of that name in another form, like a plain one instead of a secret, would remain.
    for other in found.iter().filter(|it| it.name == set.name) {
        match provider.has_form(other, set) {
            true => same = Some(other),
            false => remove(reconciler, repo, other, corrected).await?,
        }
    }
    if same.is_some_and(|it| is_equal(it, set)) {
        return Ok(());
    }
    let action = format!("setting the CI variable {}", set.name);
    let done = provider.set_variable(repo, set, same.is_some()).await;
    done.map_err(|error| reconciler.error(&action, without_value(error, set)))?;
    // The value of a secret cannot be read, so it is written at each check. That alone is no drift.
    let is_unread = same.is_some_and(|it| it.value.is_none() && has_same_flags(it, set));
    if !is_unread && !corrected.contains(&correction) {
        corrected.push(correction);
    }
    Ok(())
}

fn is_equal(found: &FoundVariable, set: &SetVariable) -> bool {
    let value = found.value.as_ref();
    has_same_flags(found, set)
        && value.is_some_and(|it| it.expose_secret() == set.value.expose_secret())
}

fn has_same_flags(found: &FoundVariable, set: &SetVariable) -> bool {
    (found.protected, found.masked, found.raw) == (set.protected, set.masked, set.raw)
}

/// A server may repeat the value in its message.
fn without_value(error: CallError, set: &SetVariable) -> CallError {
    let value = set.value.expose_secret();
    let without = |text: String| match value.len() {
        MIN_REDACTED_BYTES.. => text.replace(value, "***"),
        _ => "the message of the server is left out, since it may have the value".to_owned(),
    };
    match error {
        CallError::Conflict(text) => CallError::Conflict(without(text)),
        CallError::Refused(text) => CallError::Refused(without(text)),
        CallError::Forbidden(text) => CallError::Forbidden(without(text)),
        CallError::Unavailable(text) => CallError::Unavailable(without(text)),
        other => other,
    }
}
