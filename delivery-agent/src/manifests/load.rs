//! Manifests of an artifact, with variables and values of Secrets.

use std::{borrow::Cow, sync::Arc};

use fairlead_api::{Code, delivery::Spec};
use fairlead_bundle::folder::Folder;
use fairlead_manifests::yaml::{self, Manifest};
use secrecy::ExposeSecret;

use super::invalid;
use crate::{
    content::ContentError,
    engine::{FailureClass, RunContext, RunFailure, SecretValues},
    secrets::{ReplaceError, replace_variables},
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
    let code = match error {
        ContentError::Digest(_) => Code::WrongDigest,
        ContentError::Unreadable { .. } => Code::InvalidManifests,
        ContentError::Unreachable(_) | ContentError::Refused { .. } => Code::DeploymentWaits,
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
    let secret = |name: &str| {
        let value = secrets.vars.get(name.strip_prefix("vars.")?)?;
        Some(value.expose_secret())
    };
    let lookup = |name: &str| spec.variables.get(name).map(Cow::Borrowed);
    for manifest in &mut manifests {
        let replaced = replace_variables(&mut manifest.object, &secret, &lookup);
        replaced.map_err(|error| match error {
            ReplaceError::Misused(cause) => {
                RunFailure::new(FailureClass::Permanent, Code::SecretMisused, cause)
            }
            ReplaceError::NoText(cause) => {
                RunFailure::new(FailureClass::Permanent, Code::SecretUnusable, cause)
            }
            ReplaceError::Variable(error) => invalid(format!("{}: {error}", manifest.place)),
        })?;
    }
    Ok(manifests)
}
