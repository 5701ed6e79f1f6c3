//! Identity in the Secret `fairlead-identity` of the agent's own cluster, as plain JSON over the agent's
//! connections to the API server. Every write names the version that it replaces.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{error::IdentityStoreError, store::Documents};
use fairlead_apiserver::Upstream;

/// Name of the Secret.
pub(crate) const SECRET_NAME: &str = "fairlead-identity";
const IDENTITY_KEY: &str = "identity.json";
const HUBS_KEY: &str = "hubs.json";
const PENDING_KEY: &str = "pending.key";

pub(crate) struct SecretStore {
    upstream: Arc<Upstream>,
    namespace: String,
}

/// Relevant fields of a Secret.
#[derive(Deserialize, Default)]
pub(crate) struct SecretContent {
    metadata: SecretMetadata,
    #[serde(default)]
    data: Option<Map<String, Value>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SecretMetadata {
    resource_version: Option<String>,
    #[serde(default)]
    labels: Option<Value>,
    #[serde(default)]
    annotations: Option<Value>,
}

impl SecretStore {
    pub(crate) fn new(upstream: Arc<Upstream>, namespace: String) -> Self {
        SecretStore {
            upstream,
            namespace,
        }
    }

    /// All documents, with their version.
    pub(super) async fn load(
        &self,
    ) -> Result<(Documents, Option<SecretContent>), IdentityStoreError> {
        let content = self.get().await?;
        let none = Map::new();
        let data = content.as_ref().and_then(|content| content.data.as_ref());
        let data = data.unwrap_or(&none);
        let documents = Documents {
            identity: entry(data, IDENTITY_KEY)?,
            pending: entry(data, PENDING_KEY)?,
            hubs: entry(data, HUBS_KEY)?,
        };
        Ok((documents, content))
    }

    pub(super) async fn save_hubs(
        &self,
        hubs: SecretString,
        content: Option<SecretContent>,
    ) -> Result<(), IdentityStoreError> {
        self.put(content, |data| {
            data.insert(HUBS_KEY.to_owned(), encode(&hubs).into());
        })
        .await
    }

    /// Stores the pending key, unless another agent of this cluster has written meanwhile.
    pub(super) async fn save_pending(
        &self,
        key: SecretString,
        content: Option<SecretContent>,
    ) -> Result<(), IdentityStoreError> {
        self.put(content, |data| {
            data.insert(PENDING_KEY.to_owned(), encode(&key).into());
        })
        .await
    }

    pub(super) async fn save(
        &self,
        identity: SecretString,
        content: Option<SecretContent>,
    ) -> Result<(), IdentityStoreError> {
        self.put(content, |data| {
            data.remove(PENDING_KEY);
            data.insert(IDENTITY_KEY.to_owned(), encode(&identity).into());
        })
        .await
    }

    async fn get(&self) -> Result<Option<SecretContent>, IdentityStoreError> {
        let path = format!("{}/{SECRET_NAME}", self.collection_path());
        let (status, body) = self.request(Method::GET, &path, None).await?;
        match status {
            200 => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|_| IdentityStoreError::Damaged("Secret".to_owned())),
            404 => Ok(None),
            status => Err(self.refused("get", status)),
        }
    }

    async fn put(
        &self,
        content: Option<SecretContent>,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), IdentityStoreError> {
        let exists = content.is_some();
        let content = content.unwrap_or_default();
        let mut data = content.data.unwrap_or_default();
        change(&mut data);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": SECRET_NAME,
                "namespace": self.namespace,
                "resourceVersion": content.metadata.resource_version,
                "labels": content.metadata.labels,
                "annotations": content.metadata.annotations,
            },
            "data": data,
        });
        let (method, path, verb) = if exists {
            (
                Method::PUT,
                format!("{}/{SECRET_NAME}", self.collection_path()),
                "update",
            )
        } else {
            (Method::POST, self.collection_path(), "create")
        };
        match self
            .request(method, &path, Some(secret.to_string()))
            .await?
            .0
        {
            200 | 201 => Ok(()),
            409 => Err(IdentityStoreError::Conflict(self.name())),
            status => Err(self.refused(verb, status)),
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<(u16, Bytes), IdentityStoreError> {
        let answer = self.upstream.request(method, path, body).await;
        let (status, body) =
            answer.map_err(|error| IdentityStoreError::Unreachable(self.name(), error))?;
        Ok((status.as_u16(), body))
    }

    fn collection_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    fn name(&self) -> String {
        format!("{}/{SECRET_NAME}", self.namespace)
    }

    fn refused(&self, verb: &'static str, status: u16) -> IdentityStoreError {
        IdentityStoreError::Refused {
            verb,
            name: self.name(),
            status,
        }
    }
}

fn encode(text: &SecretString) -> String {
    STANDARD.encode(text.expose_secret())
}

fn entry(data: &Map<String, Value>, key: &str) -> Result<Option<SecretString>, IdentityStoreError> {
    let Some(encoded) = data.get(key).and_then(Value::as_str) else {
        return Ok(None);
    };
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| IdentityStoreError::Damaged("Secret".to_owned()))?;
    String::from_utf8(bytes)
        .map(|text| Some(text.into()))
        .map_err(|_| IdentityStoreError::Damaged("Secret".to_owned()))
}
