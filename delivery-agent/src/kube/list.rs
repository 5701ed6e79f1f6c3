//! Lists of objects, page by page.

use std::time::Duration;

use fairlead_api::percent;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    client::{JSON, KubeClient, late, read},
    error::KubeError,
};

const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Deadline of one page.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);
/// Objects per page. A page that is too large is requested again with fewer.
const PAGE_LIMITS: [usize; 3] = [100, 10, 1];
/// Largest page in bytes.
const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Limit for an API server that never ends a list.
const MAX_PAGES: usize = 20_000;
/// Largest list in memory, in objects.
const MAX_OBJECTS: usize = 50_000;

/// Selection of a list or a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// `labelSelector`; `""` for all.
    pub labels: String,
    /// `fieldSelector`; `""` for all.
    pub fields: String,
    /// True: metadata without contents.
    pub metadata_only: bool,
}

impl Query {
    /// Objects with these labels.
    #[must_use]
    pub fn of_labels(labels: impl Into<String>) -> Self {
        Self {
            labels: labels.into(),
            ..Self::default()
        }
    }

    /// The same selection, of metadata only.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self {
            metadata_only: true,
            ..self
        }
    }

    pub(super) fn append(&self, path: &mut String) {
        for (name, value) in [
            ("labelSelector", &self.labels),
            ("fieldSelector", &self.fields),
        ] {
            if !value.is_empty() {
                path.push_str(&format!("&{name}={}", percent::encode(value)));
            }
        }
    }
}

/// Objects of a list, and the version from which a watch goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectList {
    /// Objects. Items of the API server's lists have no `apiVersion` and `kind`, unless metadata is listed.
    pub items: Vec<Value>,
    /// Version of the list.
    pub resource_version: String,
}

#[derive(Deserialize)]
struct ObjectPage {
    #[serde(default)]
    metadata: PageMetadata,
    /// Missing or null in an empty list.
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: String,
    resource_version: String,
}

impl KubeClient {
    /// Reads a collection; `None` if the cluster has no such kind.
    ///
    /// # Errors
    /// [`KubeError`]; also for more than 50,000 objects.
    pub async fn list(&self, path: &str, query: &Query) -> Result<Option<ObjectList>, KubeError> {
        let mut list = ObjectList::default();
        let take = |object| {
            list.items.push(object);
            if list.items.len() > MAX_OBJECTS {
                return Err(KubeError::unusable("the list is too large"));
            }
            Ok(())
        };
        let version = self.for_each(path, query, take).await?;
        Ok(version.map(|resource_version| ObjectList {
            resource_version,
            ..list
        }))
    }

    /// Passes each object of a collection on, with one page in memory. Returns the version of the list; `None` if the
    /// cluster has no such kind.
    ///
    /// # Errors
    /// [`KubeError`], or the error of `take`. Objects of earlier pages have been passed on then.
    pub async fn for_each(
        &self,
        path: &str,
        query: &Query,
        mut take: impl FnMut(Value) -> Result<(), KubeError> + Send,
    ) -> Result<Option<String>, KubeError> {
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let Some(page) = self.page(path, query, &next).await? else {
                return Ok(None);
            };
            page.items.into_iter().flatten().try_for_each(&mut take)?;
            if page.metadata.next.is_empty() {
                return Ok(Some(page.metadata.resource_version));
            }
            next = page.metadata.next;
        }
        Err(KubeError::unusable("the list never ends"))
    }

    async fn page(
        &self,
        path: &str,
        query: &Query,
        next: &str,
    ) -> Result<Option<ObjectPage>, KubeError> {
        let accept = if query.metadata_only {
            METADATA_LIST
        } else {
            JSON
        };
        let mut failure = None;
        for limit in PAGE_LIMITS {
            let mut path = format!("{path}?limit={limit}");
            query.append(&mut path);
            if !next.is_empty() {
                path.push_str(&format!("&continue={}", percent::encode(next)));
            }
            let reading = async {
                let opened = self.open_in_turn(&path, accept).await?;
                read(opened.into_body(), MAX_PAGE_BYTES).await
            };
            match timeout(PAGE_DEADLINE, reading).await.map_err(|_| late())? {
                Ok(bytes) => {
                    let page = serde_json::from_slice(&bytes);
                    return page.map(Some).map_err(KubeError::unusable);
                }
                Err(KubeError::Status { status, .. })
                    if status == StatusCode::NOT_FOUND.as_u16() =>
                {
                    return Ok(None);
                }
                Err(refused @ KubeError::Status { .. }) => return Err(refused),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(late))
    }
}
