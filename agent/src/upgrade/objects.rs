//! Requests to the API server: the agent's own Deployment, and its pods.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_apiserver::{Upstream, UpstreamError};
use fairlead_exchange::{Answer, body};
use http::{HeaderValue, Method, Request, StatusCode, header};
use serde_json::Value;
use tokio::time::timeout;

use super::deployment::AgentDeployment;

/// Name of the Deployment, as in the install manifest.
const DEPLOYMENT_NAME: &str = "fairlead-agent";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
/// Field manager of the agent's changes.
const FIELD_MANAGER: &str = "fairlead-agent";
const PATCH_DEADLINE: Duration = Duration::from_secs(15);
const MAX_ANSWER_BYTES: usize = 2 * 1024 * 1024;
const MAX_PODS: usize = 50;

#[derive(Debug, thiserror::Error)]
pub(super) enum DeploymentError {
    /// Temporary.
    #[error("the API server did not answer the agent: {0}")]
    Unreachable(String),
    /// The Deployment has changed since it was read.
    #[error("the Deployment has changed meanwhile")]
    Changed,
    #[error(
        "the agent's role lacks get and patch on its Deployment; apply a new install manifest, or change the image by hand"
    )]
    Forbidden,
    #[error("there is no Deployment {DEPLOYMENT_NAME} in the namespace {0}")]
    Missing(String),
    #[error("the Deployment {DEPLOYMENT_NAME} has no container with the name agent and an image")]
    Unusable,
    #[error("the API server refused the change of the Deployment: {0}")]
    Refused(String),
}

impl From<UpstreamError> for DeploymentError {
    fn from(error: UpstreamError) -> Self {
        DeploymentError::Unreachable(fairlead_api::error_chain(&error))
    }
}

pub(super) struct Deployments {
    upstream: Arc<Upstream>,
    namespace: String,
}

impl Deployments {
    pub(super) fn new(upstream: Arc<Upstream>, namespace: String) -> Self {
        Deployments {
            upstream,
            namespace,
        }
    }

    pub(super) async fn get(&self) -> Result<AgentDeployment, DeploymentError> {
        let (status, body) = self
            .upstream
            .request(Method::GET, &self.path(), None)
            .await?;
        self.check(status, &body)?;
        let object: Value = serde_json::from_slice(&body).map_err(|_| DeploymentError::Unusable)?;
        AgentDeployment::read(&object).ok_or(DeploymentError::Unusable)
    }

    /// Changes the Deployment. The patch names the version that it replaces.
    pub(super) async fn patch(&self, patch: &Value) -> Result<(), DeploymentError> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", self.path());
        let mut request = Request::new(body::full(patch.to_string()));
        *request.method_mut() = Method::PATCH;
        *request.uri_mut() = path.parse().map_err(|_| DeploymentError::Unusable)?;
        let headers = request.headers_mut();
        let kind = HeaderValue::from_static(STRATEGIC_MERGE_PATCH);
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let sending = async {
            match self.upstream.send(request, None).await? {
                Answer::Upgraded(head, _) => Ok((head.status(), Bytes::new())),
                Answer::Response(response) => {
                    let status = response.status();
                    let body = body::read(response.into_body(), MAX_ANSWER_BYTES).await;
                    Ok((status, body.map_err(UpstreamError::Broken)?))
                }
            }
        };
        let sent: Result<_, UpstreamError> = timeout(PATCH_DEADLINE, sending)
            .await
            .map_err(|_| UpstreamError::Timeout(PATCH_DEADLINE))?;
        let (status, body) = sent?;
        self.check(status, &body)
    }

    /// Pods of the Deployment.
    pub(super) async fn pods(&self, selector: &str) -> Result<Vec<Value>, DeploymentError> {
        let selector = fairlead_api::percent::encode(selector);
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector={selector}&limit={MAX_PODS}",
            self.namespace
        );
        let (status, body) = self.upstream.request(Method::GET, &path, None).await?;
        self.check(status, &body)?;
        let mut list: Value = serde_json::from_slice(&body).unwrap_or_default();
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    fn path(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/apps/v1/namespaces/{namespace}/deployments/{DEPLOYMENT_NAME}")
    }

    fn check(&self, status: StatusCode, body: &[u8]) -> Result<(), DeploymentError> {
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::FORBIDDEN => Err(DeploymentError::Forbidden),
            StatusCode::NOT_FOUND => Err(DeploymentError::Missing(self.namespace.clone())),
            StatusCode::CONFLICT => Err(DeploymentError::Changed),
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => {
                Err(DeploymentError::Refused(message_of(body)))
            }
            status => Err(DeploymentError::Unreachable(format!(
                "it answered {status}"
            ))),
        }
    }
}

/// Message of a `Status`.
fn message_of(body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = status.get("message").and_then(Value::as_str);
    message.unwrap_or("no message").to_owned()
}
