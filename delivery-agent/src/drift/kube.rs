//! The client of the API server, as drift detection uses it.

use async_trait::async_trait;
use serde_json::Value;

use super::api::{EventStream, ObjectApi};
use crate::kube::{KubeClient, KubeError, ObjectList, ObjectWatch, Propagation, Query, WatchEvent};

#[async_trait]
impl EventStream for ObjectWatch {
    async fn next(&mut self) -> Result<Option<WatchEvent>, KubeError> {
        ObjectWatch::next(self).await
    }
}

#[async_trait]
impl ObjectApi for KubeClient {
    async fn get(&self, path: &str) -> Result<Option<Value>, KubeError> {
        KubeClient::get(self, path).await
    }

    async fn list(&self, path: &str, query: &Query) -> Result<Option<ObjectList>, KubeError> {
        KubeClient::list(self, path, query).await
    }

    async fn apply(
        &self,
        path: &str,
        manager: &str,
        dry_run: bool,
        object: &Value,
    ) -> Result<Value, KubeError> {
        KubeClient::apply(self, path, manager, true, dry_run, object).await
    }

    async fn create(&self, path: &str, object: &Value) -> Result<Value, KubeError> {
        KubeClient::create(self, path, object).await
    }

    async fn json_patch(&self, path: &str, patch: &Value) -> Result<Value, KubeError> {
        KubeClient::json_patch(self, path, patch).await
    }

    async fn delete(&self, path: &str, uid: &str) -> Result<(), KubeError> {
        let deleted = KubeClient::delete(self, path, Some(uid), Propagation::Background).await;
        deleted.map(drop)
    }

    async fn watch(
        &self,
        path: &str,
        query: &Query,
        resource_version: &str,
    ) -> Result<Box<dyn EventStream>, KubeError> {
        let watch = KubeClient::watch(self, path, query, resource_version).await?;
        Ok(Box::new(watch))
    }
}
