//! Checks of charts, releases and values, and of Secrets that go into them.

use fairlead_api::delivery::{BundleFields, BundleKind, Chart, HelmOptions, SecretInput};
use serde_json::Value;

use super::{
    error::{FieldError, MAX_TIMEOUT_SECONDS, Path, Problem, check_range},
    names::{check_namespace, check_object_name, check_release, check_secret_key},
};
use crate::variables::{UsedVariables, is_variable_suffix};

pub(super) fn check_chart(path: &Path<'_>, chart: &Chart) -> Result<(), FieldError> {
    let version = path.field("version");
    version.require(!chart.version.trim().is_empty(), || Problem::Required)?;
    let name = path.field("name");
    match (&chart.repository, &chart.oci) {
        (Some(url), None) => {
            let is_http = url.starts_with("https://") || url.starts_with("http://");
            let path = path.field("repository");
            path.require(is_http, || Problem::Url("https:// or http://"))?;
            check_login(&path, url)?;
            let is_named = chart.name.as_ref().is_some_and(|it| !it.trim().is_empty());
            name.require(is_named, || Problem::Required)
        }
        (None, Some(url)) => {
            let path = path.field("oci");
            path.require(url.starts_with("oci://"), || Problem::Url("oci://"))?;
            check_login(&path, url)?;
            // The reference names the chart.
            name.require(chart.name.is_none(), || Problem::AtMostOne("oci and name"))
        }
        _ => Err(path.error(Problem::ExactlyOne("repository and oci"))),
    }
}

/// A record is shown to many people, so no password may stand in its URL.
fn check_login(path: &Path<'_>, url: &str) -> Result<(), FieldError> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    path.require(!authority.contains('@'), || Problem::Login)
}

pub(super) fn check_helm(path: &Path<'_>, helm: &HelmOptions) -> Result<(), FieldError> {
    if let Some(release) = &helm.release {
        check_release(&path.field("release"), release)?;
    }
    if let Some(timeout) = helm.timeout {
        let path = path.field("timeout");
        check_range(&path, timeout.0.as_secs(), 1, MAX_TIMEOUT_SECONDS)?;
    }
    check_values(&path.field("values"), helm.values.values())
}

/// Refuses text that looks like a variable and is none, like `${vars.}`: most likely a typing error.
pub(super) fn check_values<'a>(
    path: &Path<'_>,
    values: impl Iterator<Item = &'a Value>,
) -> Result<(), FieldError> {
    for value in values {
        match value {
            Value::String(text) => check_text(path, text)?,
            Value::Array(items) => check_values(path, items.iter())?,
            Value::Object(map) => check_values(path, map.values())?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Ok(())
}

fn check_text(path: &Path<'_>, text: &str) -> Result<(), FieldError> {
    for (at, _) in text.match_indices("${") {
        let (before, reference) = text.split_at(at);
        let is_ours = reference.starts_with("${vars.") || reference.starts_with("${cluster.");
        if !is_ours || before.ends_with('$') {
            continue;
        }
        let end = reference.find('}').map_or(reference.len(), |end| end + 1);
        let (reference, _) = reference.split_at(end);
        let mut used = UsedVariables::default();
        used.add_value(&Value::from(reference));
        let is_nested = reference.rfind("${") != Some(0);
        path.require(!used.is_empty() && !is_nested, || {
            Problem::Variable(reference.chars().take(60).collect())
        })?;
    }
    Ok(())
}

pub(super) fn check_secret(
    path: &Path<'_>,
    secret: &SecretInput,
    fields: &BundleFields,
) -> Result<(), FieldError> {
    if let Some(namespace) = &secret.namespace {
        check_namespace(&path.field("namespace"), namespace)?;
    }
    check_object_name(&path.field("name"), &secret.name)?;
    check_secret_key(&path.field("key"), &secret.key)?;
    let path = path.field("as");
    let wrong = || Problem::Destination(secret.destination.chars().take(60).collect());
    match secret.destination.split_once('.') {
        Some(("values", keys)) => {
            let is_path = keys.split('.').all(|key| !key.trim().is_empty());
            path.require(is_path, wrong)?;
            let is_helm = fields.kind == BundleKind::Helm;
            path.require(is_helm, || Problem::Kind("manifests"))
        }
        Some(("vars", name)) => {
            path.require(is_variable_suffix(name), wrong)?;
            let is_manifests = fields.kind == BundleKind::Manifests;
            path.require(is_manifests, || Problem::Kind("helm"))?;
            let is_free = !fields.vars.contains_key(name);
            path.require(is_free, || Problem::Duplicate(secret.destination.clone()))
        }
        _ => Err(path.error(wrong())),
    }
}
