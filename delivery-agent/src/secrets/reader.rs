//! Reader of the Secrets of specs for the engine. Their changes are followed from each read on.

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::{Code, delivery::Spec};

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
    let vars = inputs.vars();
    let texts = inputs.texts()?.into_iter();
    Ok(SecretValues {
        vars: vars.map(|(name, value)| (name.to_owned(), value)).collect(),
        values: texts.map(|(path, text)| (path.to_owned(), text)).collect(),
    })
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
