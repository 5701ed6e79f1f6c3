//! Kinds of the cluster, from the aggregated discovery document (KEP 3352).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fairlead_manifests::{ObjectKey, ObjectKind, Scope};
use serde::Deserialize;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::{
    client::{KubeClient, late, read},
    error::KubeError,
};

/// Both versions of the document; the API servers of Kubernetes 1.30 and later have the first.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
const READ_DEADLINE: Duration = Duration::from_secs(60);
/// Shortest time between two reads because of a missing kind.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(2);
/// Longest use of a document without a new read.
const REFRESH_INTERVAL_MAX: Duration = Duration::from_secs(600);

/// Resource of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// API group, version and kind.
    pub kind: ObjectKind,
    /// Name in paths, like `deployments`.
    pub plural: String,
    /// Scope of its objects.
    pub scope: Scope,
    /// True if it can be listed and watched.
    pub is_watchable: bool,
}

impl ApiResource {
    /// Path of the objects of a namespace, or of all namespaces.
    #[must_use]
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let ObjectKind { group, version, .. } = &self.kind;
        let prefix = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        match namespace.filter(|_| self.scope == Scope::Namespaced) {
            None => format!("{prefix}/{}", self.plural),
            Some(namespace) => format!("{prefix}/namespaces/{namespace}/{}", self.plural),
        }
    }

    /// Path of an object.
    #[must_use]
    pub fn object_path(&self, key: &ObjectKey) -> String {
        let collection = self.collection_path(key.namespace.as_deref());
        format!("{collection}/{}", fairlead_api::percent::encode(&key.name))
    }
}

/// Kinds of the cluster at one time.
#[derive(Debug, Default)]
pub struct ResourceTable {
    by_kind: HashMap<ObjectKind, Arc<ApiResource>>,
    /// By group and kind, the version that the API server prefers.
    preferred: BTreeMap<(String, String), Arc<ApiResource>>,
}

impl ResourceTable {
    /// Resource of a kind in exactly this version.
    #[must_use]
    pub fn get(&self, kind: &ObjectKind) -> Option<&Arc<ApiResource>> {
        self.by_kind.get(kind)
    }

    /// Resource of a kind; another version if the cluster has not this one any more.
    #[must_use]
    pub fn get_any_version(&self, kind: &ObjectKind) -> Option<&Arc<ApiResource>> {
        self.get(kind)
            .or_else(|| self.preferred.get(&(kind.group.clone(), kind.kind.clone())))
    }

    /// Resources of all kinds, each in the version that the API server prefers.
    pub fn preferred(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.preferred.values()
    }

    /// Scope of a kind.
    #[must_use]
    pub fn scope(&self, kind: &ObjectKind) -> Option<Scope> {
        self.get(kind).map(|resource| resource.scope)
    }

    /// Number of kinds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_kind.len()
    }

    /// True before the first read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    fn insert(&mut self, resource: ApiResource) {
        let resource = Arc::new(resource);
        let ObjectKind { group, kind, .. } = resource.kind.clone();
        // The API server lists preferred versions first.
        self.preferred
            .entry((group, kind))
            .or_insert_with(|| resource.clone());
        self.by_kind
            .entry(resource.kind.clone())
            .or_insert(resource);
    }
}

type CachedTable = (Instant, Arc<ResourceTable>);

/// Cache of the kinds of the cluster. Clones share it.
#[derive(Clone)]
pub struct Discovery {
    client: KubeClient,
    /// Table, and the time of its read.
    cached: Arc<Mutex<Option<CachedTable>>>,
}

impl Discovery {
    /// Cache that reads with this client.
    #[must_use]
    pub fn new(client: KubeClient) -> Self {
        Self {
            client,
            cached: Arc::default(),
        }
    }

    /// Kinds of the cluster; read again if the document is older than ten minutes.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn table(&self) -> Result<Arc<ResourceTable>, KubeError> {
        self.table_with(|_| true).await
    }

    /// Kinds of the cluster; read again if one of these is missing, and the last read is older than two seconds.
    ///
    /// # Errors
    /// [`KubeError`]. A kind that is missing in the cluster is no error.
    pub async fn table_of<'a>(
        &self,
        kinds: impl IntoIterator<Item = &'a ObjectKind>,
    ) -> Result<Arc<ResourceTable>, KubeError> {
        let mut kinds = kinds.into_iter();
        self.table_with(|table| kinds.all(|kind| table.get(kind).is_some()))
            .await
    }

    /// Resource of a kind; `None` if the cluster has not this kind in this version.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn resource(&self, kind: &ObjectKind) -> Result<Option<Arc<ApiResource>>, KubeError> {
        let table = self.table_of([kind]).await?;
        Ok(table.get(kind).cloned())
    }

    /// Reads the kinds again with the next request.
    pub async fn invalidate(&self) {
        *self.cached.lock().await = None;
    }

    async fn table_with(
        &self,
        is_complete: impl FnOnce(&ResourceTable) -> bool,
    ) -> Result<Arc<ResourceTable>, KubeError> {
        // The lock is kept during the read: others would only repeat it.
        let mut cached = self.cached.lock().await;
        if let Some((read_at, table)) = &*cached {
            let age = read_at.elapsed();
            let is_fresh =
                age < REFRESH_INTERVAL_MIN || (age < REFRESH_INTERVAL_MAX && is_complete(table));
            if is_fresh {
                return Ok(table.clone());
            }
        }
        let table = Arc::new(self.read().await?);
        *cached = Some((Instant::now(), table.clone()));
        Ok(table)
    }

    async fn read(&self) -> Result<ResourceTable, KubeError> {
        let mut table = ResourceTable::default();
        for path in ["/api", "/apis"] {
            let reading = async {
                let opened = self.client.open_in_turn(path, ACCEPT).await?;
                read(opened.into_body(), MAX_DOCUMENT_BYTES).await
            };
            let bytes = timeout(READ_DEADLINE, reading)
                .await
                .map_err(|_| late())??;
            let document: DiscoveryDocument =
                serde_json::from_slice(&bytes).map_err(KubeError::unusable)?;
            if document.kind != "APIGroupDiscoveryList" {
                let cause = "it has no aggregated discovery; Kubernetes 1.27 or later has";
                return Err(KubeError::unusable(cause));
            }
            document.add_to(&mut table);
        }
        Ok(table)
    }
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    kind: String,
    #[serde(default)]
    items: Vec<GroupEntry>,
}

#[derive(Deserialize)]
struct GroupEntry {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<VersionEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupMetadata {
    name: String,
}

#[derive(Deserialize)]
struct VersionEntry {
    version: String,
    #[serde(default)]
    resources: Vec<ResourceEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceEntry {
    resource: String,
    #[serde(default)]
    response_kind: Option<KindEntry>,
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct KindEntry {
    group: String,
    version: String,
    kind: String,
}

impl DiscoveryDocument {
    fn add_to(self, table: &mut ResourceTable) {
        for group in self.items {
            for version in group.versions {
                for entry in version.resources {
                    let response = entry.response_kind.unwrap_or_default();
                    if response.kind.is_empty() {
                        continue;
                    }
                    // Empty fields of the response kind mean those of the resource.
                    let or =
                        |own: String, of: &str| if own.is_empty() { of.to_owned() } else { own };
                    let has = |verb: &str| entry.verbs.iter().any(|it| it == verb);
                    table.insert(ApiResource {
                        kind: ObjectKind {
                            group: or(response.group, &group.metadata.name),
                            version: or(response.version, &version.version),
                            kind: response.kind,
                        },
                        is_watchable: has("list") && has("watch"),
                        plural: entry.resource,
                        scope: if entry.scope == "Namespaced" {
                            Scope::Namespaced
                        } else {
                            Scope::Cluster
                        },
                    });
                }
            }
        }
    }
}
