//! Errors of the identity store.

use fairlead_api::{Code, Failure, error_chain};

use fairlead_apiserver::UpstreamError;

/// Reason for an unread or unstored identity. It never ends the agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityStoreError {
    #[error("{path}: {cause}")]
    File { path: String, cause: String },
    #[error("the stored {0} is damaged")]
    Damaged(String),
    #[error("no answer from the API server for the Secret {0}")]
    Unreachable(String, #[source] UpstreamError),
    #[error("the API server answered {status} to {verb} of the Secret {name}")]
    Refused {
        verb: &'static str,
        name: String,
        status: u16,
    },
    #[error("the Secret {0} was changed by another writer")]
    Conflict(String),
}

impl From<IdentityStoreError> for Failure {
    fn from(error: IdentityStoreError) -> Self {
        let cause = error_chain(&error);
        match error {
            IdentityStoreError::File { .. } => {
                Failure::with_cause(Code::DataDir, cause).next("Check the folder of `--state`: this user must own it and be able to write there.")
            }
            IdentityStoreError::Damaged(_) => Failure::with_cause(Code::DataDir, cause).next(
                "Delete it, and start the agent with a new join string (`fairlead cluster token renew`).",
            ),
            IdentityStoreError::Refused { status: 401 | 403, .. } => {
                Failure::with_cause(Code::ApiUnreachable, cause).next(
                    "Apply the current install manifest: its Role allows the agent to keep this Secret.",
                )
            }
            IdentityStoreError::Unreachable(..) | IdentityStoreError::Refused { .. } | IdentityStoreError::Conflict(_) => {
                Failure::with_cause(Code::ApiUnreachable, cause)
            }
        }
    }
}
