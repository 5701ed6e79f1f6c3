//! Flags of `fairlead cluster agent set` for a GitOps tool that the hub installs.

use std::collections::BTreeMap;

use fairlead_api::{Code, Failure};
use serde_json::{Map, Value, json};

use super::with_gitops;
use fairlead_client::files;

use crate::args::ToolFields;

/// Applies the given flags; other settings stay as they are.
pub(super) fn amended(mut settings: Value, given: ToolFields) -> Result<Value, Failure> {
    for (field, value) in [
        ("install", given.gitops_install),
        ("adopt", given.gitops_adopt),
    ] {
        if let Some(value) = value {
            settings = with_gitops(settings, field, value.into())?;
        }
    }
    if given.gitops_version.is_some() || given.gitops_registry.is_some() {
        let known = settings.pointer("/gitops/installation").cloned();
        let mut installation = known.unwrap_or_else(|| Value::Object(Map::new()));
        if let (Value::Object(fields), Some(version)) = (&mut installation, given.gitops_version) {
            let (version, sha256) = match version.split_once('@') {
                Some((version, sha256)) => (version, Some(sha256)),
                None => (version.as_str(), None),
            };
            fields.insert("version".to_owned(), version.into());
            fields.remove("sha256");
            if let Some(sha256) = sha256 {
                let digits = sha256.strip_prefix("sha256:").unwrap_or(sha256);
                fields.insert("sha256".to_owned(), digits.into());
            }
        }
        if let (Value::Object(fields), Some(registry)) = (&mut installation, given.gitops_registry)
        {
            fields.insert("registry".to_owned(), registry.into());
        }
        settings = with_gitops(settings, "installation", installation)?;
    }
    if let Some(keys) = given.gitops_verify {
        settings = with_keys(settings, &keys)?;
    }
    Ok(settings)
}

/// Sets the keys of commits; an empty list ends their verification. The mode stays as it is.
fn with_keys(mut settings: Value, list: &str) -> Result<Value, Failure> {
    if list.is_empty() {
        if let Some(Value::Object(gitops)) = settings.get_mut("gitops") {
            gitops.remove("verify");
        }
        return Ok(settings);
    }
    let mut keys = BTreeMap::new();
    for item in list.split(',').map(str::trim) {
        let parts = item.split_once("=@");
        let (name, file) = parts.ok_or_else(|| {
            let cause = format!("--gitops-verify: {item:?} is not NAME=@FILE");
            Failure::with_cause(Code::Usage, cause)
        })?;
        keys.insert(name, files::read(file.as_ref())?);
    }
    let known = settings.pointer("/gitops/verify").cloned();
    let mut verify = known.unwrap_or_else(|| Value::Object(Map::new()));
    if let Value::Object(fields) = &mut verify {
        fields.insert("keys".to_owned(), json!(keys));
    }
    with_gitops(settings, "verify", verify)
}
