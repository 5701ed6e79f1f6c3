//! Manifests of an artifact, with variables and values of Secrets.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use fairlead_api::{Code, delivery::Spec};
use fairlead_bundle::{folder::Folder, variables};
use fairlead_manifests::{
    substitute,
    yaml::{self, Manifest},
};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::invalid;
use crate::{
    content::ContentError,
    engine::{FailureClass, RunContext, RunFailure, SecretValues},
};

/// Reads the manifests of a run.
pub(super) async fn manifests(run: &RunContext) -> Result<Vec<Manifest>, RunFailure> {
    let folder = run.content.artifact(&run.spec.artifact).await;
    let folder = folder.map_err(|error| content_failure(&error))?;
    let (spec, secrets) = (run.spec.clone(), run.secrets.clone());
    // Large bundles take a while; the sessions of the agent share this thread.
    let reading = tokio::task::spawn_blocking(move || read(&folder, &spec, &secrets));
    reading.await.map_err(|error| invalid(error.to_string()))?
}

/// Failure of a run without its content.
pub(crate) fn content_failure(error: &ContentError) -> RunFailure {
    let class = match error {
        ContentError::Unreachable(_) => FailureClass::Waiting,
        ContentError::Refused { .. } | ContentError::Digest(_) => FailureClass::Retry,
        ContentError::Unreadable { .. } => FailureClass::Permanent,
    };
    let code = match class {
        FailureClass::Permanent => Code::InvalidManifests,
        _ => Code::DeploymentWaits,
    };
    RunFailure::new(class, code, error.to_string())
}

fn read(
    folder: &Arc<Folder>,
    spec: &Spec,
    secrets: &SecretValues,
) -> Result<Vec<Manifest>, RunFailure> {
    let files = folder
        .iter()
        .filter(|(path, _)| yaml::is_manifest(path))
        .map(|(path, content)| (path.as_str(), content.as_slice()));
    let mut manifests = yaml::parse_all(files).map_err(|error| invalid(error.to_string()))?;
    let secret_values: BTreeMap<String, Value> = secrets
        .vars
        .iter()
        .map(|(name, value)| {
            let value = Value::from(value.expose_secret());
            (format!("vars.{name}"), value)
        })
        .collect();
    for manifest in &mut manifests {
        let is_secret = is_secret(&manifest.object);
        let lookup = |name: &str| {
            let secret = secret_values.get(name).filter(|_| is_secret);
            secret
                .or_else(|| spec.variables.get(name))
                .map(Cow::Borrowed)
        };
        let replace = |text: &str| variables::substitute_text(text, &lookup);
        substitute(&mut manifest.object, &replace).map_err(|error| {
            let is_hidden = secret_values
                .keys()
                .any(|name| error.to_string().contains(name.as_str()));
            let hint = match is_hidden && !is_secret {
                true => "; values of Secrets go into objects of the kind Secret only",
                false => "",
            };
            invalid(format!("{}: {error}{hint}", manifest.place))
        })?;
    }
    Ok(manifests)
}

fn is_secret(object: &Value) -> bool {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    text("kind") == Some("Secret") && text("apiVersion") == Some("v1")
}
