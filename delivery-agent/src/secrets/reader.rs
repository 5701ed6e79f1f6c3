//! Reader of the Secrets of specs for the engine. Their changes are followed from each read on.

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::{Code, delivery::Spec};
use secrecy::SecretString;

use super::{SecretChanges, SecretError, SecretInputs, SecretVersions};
use crate::{
    engine::{FailureClass, RunFailure, SecretReader, SecretValues},
    fence::AccountName,
    kube::KubeClient,
};

/// Reads Secrets with the token of a run.
pub struct ClusterSecrets {
    changes: Arc<SecretChanges>,
}

impl ClusterSecrets {
    /// A reader that lets `changes` follow each read Secret.
    #[must_use]
    pub fn new(changes: Arc<SecretChanges>) -> Self {
        Self { changes }
    }
}

#[async_trait]
impl SecretReader for ClusterSecrets {
    async fn read(&self, kube: &KubeClient, spec: &Spec) -> Result<SecretValues, RunFailure> {
        let user = AccountName::parse(&spec.service_account)?.user();
        let mut versions = SecretVersions::new();
        let (inputs, namespace) = (&spec.secrets, &spec.namespace);
        let read = SecretInputs::read(kube, inputs, namespace, &user, &mut versions).await;
        // The creation of a missing Secret is a change, too.
        let account = &spec.service_account;
        self.changes.follow(&spec.bundle, account, versions);
        let inputs = read.map_err(failure)?;
        values(&inputs).map_err(failure)
    }
}

fn values(inputs: &SecretInputs) -> Result<SecretValues, SecretError> {
    let mut values = SecretValues::default();
    for (destination, text) in inputs.texts()? {
        let text = SecretString::from(text);
        match destination.split_once('.') {
            Some(("vars", name)) => drop(values.vars.insert(name.to_owned(), text)),
            Some(("values", path)) => values.values.push((path.to_owned(), text)),
            _ => {}
        }
    }
    Ok(values)
}

fn failure(error: SecretError) -> RunFailure {
    match error {
        SecretError::Waiting(failure) => {
            RunFailure::new(FailureClass::Waiting, failure.code, failure.cause)
        }
        SecretError::Permanent(failure) => {
            RunFailure::new(FailureClass::Permanent, failure.code, failure.cause)
        }
        SecretError::Unavailable(cause) => {
            RunFailure::new(FailureClass::Waiting, Code::ApiServerAway, cause.0)
        }
    }
}
