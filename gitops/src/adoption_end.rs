//! End of an adoption without agent and hub: a person with a kubeconfig returns the saved objects.

use std::{fmt, sync::Arc};

use fairlead_api::{Code, Failure, gitops::GitOpsTool};
use fairlead_apiserver::Upstream;

use crate::{
    adopt::{self, Saved},
    kube::{ObjectError, Objects},
    tool::Layout,
};

/// Passes until all objects are returned: one that writes them, and one that finds no difference. Others have the rest.
const MAX_PASSES: usize = 5;

/// Saved objects that were not returned. A second attempt completes the first.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionEndError {
    /// The caller lacks a right.
    #[error("{0}")]
    Forbidden(String),
    /// No usable answer.
    #[error("{0}")]
    Failed(String),
    /// Somebody else changes them at the same time.
    #[error("an object of {0} is changed by others at the same time")]
    Contended(&'static str),
}

impl From<ObjectError> for AdoptionEndError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Forbidden { verb, path } => {
                AdoptionEndError::Forbidden(format!("you may not {verb} {path}"))
            }
            other => AdoptionEndError::Failed(other.to_string()),
        }
    }
}

impl From<AdoptionEndError> for Failure {
    fn from(error: AdoptionEndError) -> Self {
        let cause = error.to_string();
        match error {
            AdoptionEndError::Forbidden(_) => Failure::with_cause(Code::NotAllowed, cause)
                .next("Use a kubeconfig of a cluster administrator."),
            AdoptionEndError::Failed(_) | AdoptionEndError::Contended(_) => {
                Failure::with_cause(Code::ApiUnreachable, cause)
                    .next("Run the command again: it continues.")
            }
        }
    }
}

/// Adopted GitOps tool whose objects are saved. Displays as `flux: its catalog from before the adoption`.
pub struct AdoptedTool {
    objects: Objects,
    layout: Layout,
    saved: Saved,
}

impl fmt::Display for AdoptedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = self.layout.tool.as_str();
        write!(f, "{tool}: its catalog from before the adoption")
    }
}

impl AdoptedTool {
    /// Finds the adopted tools of a cluster.
    ///
    /// # Errors
    /// [`AdoptionEndError`]
    pub async fn find(upstream: Arc<Upstream>) -> Result<Vec<Self>, AdoptionEndError> {
        let objects = Objects::new(upstream);
        let mut found = Vec::new();
        for tool in [GitOpsTool::Flux, GitOpsTool::Argocd] {
            let Some(layout) = Layout::of(tool) else {
                continue;
            };
            // Without the right to read it, an adoption would be overlooked.
            if let Some(saved) = adopt::read_as_admin(&objects, &layout).await? {
                let objects = objects.clone();
                found.push(AdoptedTool {
                    objects,
                    layout,
                    saved,
                });
            }
        }
        Ok(found)
    }

    /// Returns the saved objects, and deletes the Secret with them. The agent must have ended.
    ///
    /// # Errors
    /// [`AdoptionEndError`]: the Secret stays.
    pub async fn restore(&self) -> Result<(), AdoptionEndError> {
        for _ in 0..MAX_PASSES {
            match adopt::restore(&self.objects, &self.layout, &self.saved).await {
                Ok(true) => return Ok(()),
                // The controllers of the tool write status at the same time.
                Ok(false) | Err(ObjectError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(AdoptionEndError::Contended(self.layout.tool.as_str()))
    }
}

#[cfg(test)]
mod tests;
