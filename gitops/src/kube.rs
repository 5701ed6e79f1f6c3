//! Objects of the API server, with the answers that decisions depend on.

use std::sync::Arc;

use fairlead_api::{error_chain, percent};
use fairlead_apiserver::Upstream;
use http::{Method, StatusCode};
use serde_json::Value;

/// Objects per page. An Application of Argo CD has up to 100 KiB.
const PAGE_OBJECTS: usize = 20;
/// Maximum number of pages, for an API server that never ends a list.
const MAX_PAGES: usize = 100;

/// Failed request for an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    /// The agent lacks the right.
    #[error("the agent may not {verb} {path}")]
    Forbidden { verb: &'static str, path: String },
    /// The namespace of a new object, or the object to replace, does not exist.
    #[error("{0} does not exist")]
    Absent(String),
    /// Another writer was faster: the object is read again.
    #[error("{0} has changed meanwhile")]
    Conflict(String),
    /// No usable answer.
    #[error("{path}: {cause}")]
    Failed { path: String, cause: String },
}

/// Client for single objects.
#[derive(Clone)]
pub(crate) struct Objects(Arc<Upstream>);

impl Objects {
    pub(crate) fn new(upstream: Arc<Upstream>) -> Self {
        Objects(upstream)
    }

    /// Object at a path; `None` if it, or its kind, does not exist.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, ObjectError> {
        match self.send(Method::GET, "get", path, None).await {
            Ok(object) => Ok(Some(object)),
            Err(ObjectError::Absent(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes each object of a list to `take`; a missing kind has none.
    pub(crate) async fn for_each(
        &self,
        path: &str,
        mut take: impl FnMut(&Value) + Send,
    ) -> Result<(), ObjectError> {
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let sign = if path.contains('?') { '&' } else { '?' };
            let query = format!(
                "{path}{sign}limit={PAGE_OBJECTS}&continue={}",
                percent::encode(&next)
            );
            let Some(page) = self.get(&query).await? else {
                return Ok(());
            };
            let items = page.get("items").and_then(Value::as_array);
            items.into_iter().flatten().for_each(&mut take);
            let more = page.pointer("/metadata/continue").and_then(Value::as_str);
            match more.filter(|more| !more.is_empty()) {
                Some(more) => more.clone_into(&mut next),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Creates an object in a collection.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<(), ObjectError> {
        self.send(Method::POST, "create", path, Some(object))
            .await
            .map(drop)
    }

    /// Replaces an object of the version in `metadata.resourceVersion`.
    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<(), ObjectError> {
        self.send(Method::PUT, "update", path, Some(object))
            .await
            .map(drop)
    }

    /// Deletes an object of this version; a missing one is no error.
    pub(crate) async fn delete(&self, path: &str, version: &str) -> Result<(), ObjectError> {
        let options = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "resourceVersion": version },
        });
        match self
            .send(Method::DELETE, "delete", path, Some(&options))
            .await
        {
            Ok(_) | Err(ObjectError::Absent(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn send(
        &self,
        method: Method,
        verb: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ObjectError> {
        let failed = |cause: String| ObjectError::Failed {
            path: path.to_owned(),
            cause,
        };
        let answer = self
            .0
            .request(method, path, body.map(Value::to_string))
            .await;
        let (status, body) = answer.map_err(|error| failed(error_chain(&error)))?;
        match status {
            status if status.is_success() => {
                serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
            }
            StatusCode::NOT_FOUND => Err(ObjectError::Absent(path.to_owned())),
            StatusCode::CONFLICT => Err(ObjectError::Conflict(path.to_owned())),
            StatusCode::FORBIDDEN => Err(ObjectError::Forbidden {
                verb,
                path: path.to_owned(),
            }),
            // The answer to a write may quote the object, which has a key.
            status => Err(failed(format!(
                "the API server answered {}",
                status.as_u16()
            ))),
        }
    }
}
