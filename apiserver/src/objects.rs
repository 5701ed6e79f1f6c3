//! Reads and deletes objects of an API server named by a kubeconfig, for commands that work in a cluster
//! without an agent. Lists are read in pages.

use std::path::PathBuf;

use bytes::Bytes;
use fairlead_api::{Code, Failure, error_chain};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    config::ApiServerConfig,
    credentials::ApiCredentials,
    upstream::{Upstream, UpstreamError},
};

/// Objects per page. With 40 KiB each, a page stays below the size limit of an answer.
const PAGE_LIMIT: usize = 50;
/// Page limit of a list: bounds the work for an API server that returns the same page for ever.
const MAX_PAGES: usize = 20_000;

/// Failed request for objects of an API server.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// The kubeconfig cannot be used.
    #[error("{0}")]
    Kubeconfig(Failure),
    /// The API server does not accept the credentials.
    #[error("{0}")]
    Unauthorized(String),
    /// The credentials have no right to the objects.
    #[error("{0}")]
    Forbidden(String),
    /// The API server refuses the request for another reason.
    #[error("{0}")]
    Failed(String),
    /// No usable answer of the API server.
    #[error("{0}")]
    Unreachable(String),
}

impl From<ObjectsError> for Failure {
    fn from(error: ObjectsError) -> Self {
        match error {
            ObjectsError::Kubeconfig(failure) => failure,
            ObjectsError::Unauthorized(cause) => Failure::with_cause(Code::BadKubeconfig, cause)
                .next("Check the credentials in the kubeconfig, and `--context`."),
            ObjectsError::Forbidden(cause) => Failure::with_cause(Code::NotAllowed, cause)
                .next("Use a kubeconfig with the right to list these objects, or `--namespace` where it has that right."),
            ObjectsError::Failed(cause) => Failure::with_cause(Code::ApiUnreachable, cause)
                .next("Check that the API server of the kubeconfig is well, and run the command again."),
            ObjectsError::Unreachable(detail) => Failure::because(Code::ApiUnreachable, detail),
        }
    }
}

/// Client of the API server that a kubeconfig names.
pub struct KubeObjects {
    upstream: Upstream,
}

#[derive(Deserialize)]
struct ObjectPage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

impl KubeObjects {
    /// Client for this kubeconfig. `context`: None for the current one.
    #[must_use]
    pub fn of_kubeconfig(path: PathBuf, context: Option<String>) -> Self {
        let target = ApiServerConfig::Kubeconfig { path, context };
        KubeObjects {
            upstream: Upstream::new(ApiCredentials::new(&target)),
        }
    }

    /// Object at `path`, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As for [`KubeObjects::list`].
    pub async fn get(&self, path: &str) -> Result<Option<Value>, ObjectsError> {
        let (status, body) = self.request(Method::GET, path, None).await?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| ObjectsError::Unreachable(format!("{path}: {error}"))),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(refusal(path, other, &body)),
        }
    }

    /// Deletes the object at `path`. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// As for [`KubeObjects::list`].
    pub async fn delete(&self, path: &str) -> Result<bool, ObjectsError> {
        let (status, body) = self.request(Method::DELETE, path, None).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(false),
            // The namespace is already being deleted.
            StatusCode::CONFLICT => Ok(true),
            status if status.is_success() => Ok(true),
            other => Err(refusal(path, other, &body)),
        }
    }

    /// Replaces the object at `path` by one with its `resourceVersion`.
    ///
    /// # Errors
    ///
    /// As for [`KubeObjects::list`].
    pub async fn replace(&self, path: &str, object: &Value) -> Result<(), ObjectsError> {
        let body = Some(object.to_string());
        let (status, body) = self.request(Method::PUT, path, body).await?;
        match status.is_success() {
            true => Ok(()),
            false => Err(refusal(path, status, &body)),
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), ObjectsError> {
        let answer = self.upstream.request(method, path, body).await;
        answer.map_err(|error| match error {
            UpstreamError::Target(error) => ObjectsError::Kubeconfig(error.into()),
            other => ObjectsError::Unreachable(error_chain(&other)),
        })
    }

    /// Reads all objects of one list path, such as `/apis/apps/v1/deployments`. `None` if the API server has no
    /// such path.
    ///
    /// # Errors
    ///
    /// [`ObjectsError`]: `FL-4110` for the kubeconfig and its credentials, `FL-1201` without the right to list,
    /// `FL-1502` if the API server does not answer or fails.
    pub async fn list(&self, path: &str) -> Result<Option<Vec<Value>>, ObjectsError> {
        let mut all = Vec::new();
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let query = format!("{path}?limit={PAGE_LIMIT}&continue={next}");
            let (status, body) = self.request(Method::GET, &query, None).await?;
            match status {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(None),
                other => return Err(refusal(path, other, &body)),
            }
            let page: ObjectPage = serde_json::from_slice(&body)
                .map_err(|error| ObjectsError::Unreachable(format!("{path}: {error}")))?;
            all.extend(page.items);
            if page.metadata.next.is_empty() {
                return Ok(Some(all));
            }
            // Kubernetes encodes the token in base64url; any other value is escaped for the query.
            next = page
                .metadata
                .next
                .replace('%', "%25")
                .replace('&', "%26")
                .replace('+', "%2B");
        }
        let detail = format!("{path}: it has more than {MAX_PAGES} pages");
        Err(ObjectsError::Unreachable(detail))
    }
}

fn refusal(path: &str, status: StatusCode, body: &[u8]) -> ObjectsError {
    let cause = format!("{path}: the API server answers {status}: {}", message(body));
    match status {
        StatusCode::UNAUTHORIZED => ObjectsError::Unauthorized(cause),
        StatusCode::FORBIDDEN => ObjectsError::Forbidden(cause),
        _ => ObjectsError::Failed(cause),
    }
}

/// Message of a `Status`.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct StatusMessage {
        message: String,
    }
    let status: Option<StatusMessage> = serde_json::from_slice(body).ok();
    let message = status.map_or_else(String::new, |status| status.message);
    message
        .chars()
        .filter(|c| !c.is_control())
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejection_by_the_api_server_maps_to_a_code() {
        let body = br#"{"message":"tenants.syn.tools is forbidden"}"#;
        for (status, code) in [
            (StatusCode::UNAUTHORIZED, Code::BadKubeconfig),
            (StatusCode::FORBIDDEN, Code::NotAllowed),
            (StatusCode::INTERNAL_SERVER_ERROR, Code::ApiUnreachable),
        ] {
            let failure = Failure::from(refusal("/apis/syn.tools/v1alpha1/tenants", status, body));
            assert_eq!(failure.code, code);
            assert!(failure.cause.contains("tenants.syn.tools is forbidden"));
            assert!(failure.next.is_some());
        }
    }
}
