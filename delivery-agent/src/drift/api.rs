//! Requests to the API server that drift detection needs.

use async_trait::async_trait;
use serde_json::Value;

use crate::kube::{KubeError, ObjectList, Query, WatchEvent};

/// Events of an open watch.
#[async_trait]
pub trait EventStream: Send {
    /// Next event; `None` when the API server ends the watch.
    ///
    /// # Errors
    /// [`KubeError`]; the watch is over then.
    async fn next(&mut self) -> Result<Option<WatchEvent>, KubeError>;
}

/// API server, as one account.
#[async_trait]
pub trait ObjectApi: Send + Sync {
    /// Object at a path; `None` if it, or its kind, does not exist.
    async fn get(&self, path: &str) -> Result<Option<Value>, KubeError>;

    /// Objects of a collection; `None` if the cluster has no such kind.
    async fn list(&self, path: &str, query: &Query) -> Result<Option<ObjectList>, KubeError>;

    /// Forced server-side apply; a dry run changes nothing.
    async fn apply(
        &self,
        path: &str,
        manager: &str,
        dry_run: bool,
        object: &Value,
    ) -> Result<Value, KubeError>;

    /// Creates an object in a collection.
    async fn create(&self, path: &str, object: &Value) -> Result<Value, KubeError>;

    /// JSON patch (RFC 6902).
    async fn json_patch(&self, path: &str, patch: &Value) -> Result<Value, KubeError>;

    /// Deletes an object with this UID; an absent one is no error.
    async fn delete(&self, path: &str, uid: &str) -> Result<(), KubeError>;

    /// Watch from a version on; `""` sends all objects first, and a bookmark after them.
    async fn watch(
        &self,
        path: &str,
        query: &Query,
        resource_version: &str,
    ) -> Result<Box<dyn EventStream>, KubeError>;
}
