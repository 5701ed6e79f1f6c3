//! Reconciliation of one cluster's access: it reads each part, and writes only differences. The
//! policy comes first and the role last, so that nobody logs in to a half-made access.

use serde_json::{Map, Value, json};

use crate::{access::DesiredAccess, calls::VaultCalls, error::VaultError, settings::owner_mark};

/// Creates missing parts and corrects changed ones; returns them.
pub(crate) async fn ensure(
    calls: &VaultCalls,
    role: &str,
    desired: &DesiredAccess,
) -> Result<Vec<String>, VaultError> {
    let mut corrected = Vec::new();
    let mount = &desired.names.mount;
    if ensure_policy(calls, desired).await? {
        corrected.push("policy".to_owned());
    }
    if ensure_mount(calls, desired).await? {
        corrected.push("auth method".to_owned());
    }
    let config = format!("auth/{mount}/config");
    let has_config = !desired.config.is_empty();
    if has_config && ensure_fields(calls, &config, &desired.config).await? {
        corrected.push("keys".to_owned());
    }
    let role = format!("auth/{mount}/role/{role}");
    if ensure_fields(calls, &role, &desired.role).await? {
        corrected.push("role".to_owned());
    }
    Ok(corrected)
}

async fn ensure_policy(calls: &VaultCalls, desired: &DesiredAccess) -> Result<bool, VaultError> {
    let name = &desired.names.policy;
    let path = format!("sys/policies/acl/{name}");
    let found = calls.read(&path).await?;
    let text = found.as_ref().and_then(policy_of);
    if text == Some(desired.policy.as_str()) {
        return Ok(false);
    }
    if text.is_some_and(|text| !is_own_policy(text, &owner_mark(&desired.names))) {
        return Err(VaultError::Taken(format!("the policy {name}")));
    }
    let body = json!({ "policy": desired.policy });
    calls.write(&path, &body).await?;
    Ok(true)
}

pub(crate) fn policy_of(found: &Value) -> Option<&str> {
    found.get("policy").and_then(Value::as_str)
}

/// True if the first line of a policy names this owner.
pub(crate) fn is_own_policy(text: &str, mark: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("# ") == Some(mark)
}

/// True if an auth method has the description of this owner.
pub(crate) fn is_own_mount(found: &Value, mark: &str) -> bool {
    let description = found.get("description").and_then(Value::as_str);
    description == Some(mark)
}

async fn ensure_mount(calls: &VaultCalls, desired: &DesiredAccess) -> Result<bool, VaultError> {
    let mount = &desired.names.mount;
    let mark = owner_mark(&desired.names);
    let path = format!("sys/auth/{mount}");
    match calls.read(&path).await? {
        Some(found) if !is_own_mount(&found, &mark) => {
            return Err(VaultError::Taken(format!("the auth method {mount}")));
        }
        Some(found) if found.get("type") == Some(&json!(desired.method)) => return Ok(false),
        // The settings had another method. Its tokens end with it.
        Some(_) => calls.delete(&path).await?,
        None => {}
    }
    let body = json!({ "type": desired.method, "description": mark });
    calls.write(&path, &body).await?;
    Ok(true)
}

/// Writes fields unless all of them are as desired already.
async fn ensure_fields(
    calls: &VaultCalls,
    path: &str,
    desired: &Map<String, Value>,
) -> Result<bool, VaultError> {
    let found = calls.read(path).await?;
    let is_same = found.is_some_and(|found| {
        let mut fields = desired.iter();
        fields.all(|(name, value)| found.get(name).is_some_and(|it| is_equal(it, value)))
    });
    if is_same {
        return Ok(false);
    }
    calls.write(path, &Value::Object(desired.clone())).await?;
    Ok(true)
}

/// Vault keeps white space around keys, and not the order of lists.
fn is_equal(found: &Value, desired: &Value) -> bool {
    match (found, desired) {
        (Value::Array(found), Value::Array(desired)) => {
            found.len() == desired.len()
                && desired
                    .iter()
                    .all(|it| found.iter().any(|other| is_equal(other, it)))
        }
        (Value::Object(found), Value::Object(desired)) => {
            found.len() == desired.len()
                && desired
                    .iter()
                    .all(|(name, it)| found.get(name).is_some_and(|other| is_equal(other, it)))
        }
        (Value::String(found), Value::String(desired)) => found.trim() == desired.trim(),
        (found, desired) => found == desired,
    }
}
