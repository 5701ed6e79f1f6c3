//! What the store asks of a database: keep rows, and let one hub at a time go on from a revision. It knows no meaning.

use async_trait::async_trait;
use fairlead_api::{ClusterId, TenantId};
use serde_json::Value;

use super::{Kind, Revision, error::Result};

/// A kept thing as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DocumentRow {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) version: u64,
    pub(super) revision: Revision,
    /// JSON; none of what is deleted.
    pub(super) body: Option<String>,
}

/// A line of the change log.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LogRow {
    pub(super) revision: Revision,
    /// Counts the lines of one change, from 0.
    pub(super) part: u32,
    /// In milliseconds since 1970.
    pub(super) at: i64,
    pub(super) actor: String,
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) tenant: Option<TenantId>,
    pub(super) operation: super::Operation,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// A fact that has become another one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FactRow {
    pub(super) cluster: ClusterId,
    pub(super) name: String,
    /// Said by the cluster's agent, not by people.
    pub(super) dynamic: bool,
    /// In milliseconds since 1970.
    pub(super) at: i64,
    pub(super) revision: Revision,
    pub(super) source: String,
    pub(super) observed: i64,
    /// None: it was removed.
    pub(super) value: Option<Value>,
}

/// Several changes, committed together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Of the last of them.
    pub(super) revision: Revision,
    pub(super) documents: Vec<DocumentRow>,
    pub(super) catalogs: Vec<DocumentRow>,
    pub(super) log: Vec<LogRow>,
    pub(super) facts: Vec<FactRow>,
}

/// Whether a batch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    Done,
    /// Another hub was faster; nothing was written.
    Behind,
}

/// What is there, or what has changed.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) revision: Revision,
    pub(super) documents: Vec<DocumentRow>,
    /// Without their bodies.
    pub(super) catalogs: Vec<DocumentRow>,
}

/// A database that keeps the rows.
#[async_trait]
pub(super) trait Backend: Send + Sync {
    /// Everything that belongs into the view, at one revision.
    async fn load(&self) -> Result<Loaded>;

    /// Writes a batch, all of it or nothing, if `on` is the last revision. It is on the disk when this answers.
    async fn commit(&self, batch: &Batch, on: Revision) -> Result<Committed>;

    /// A catalog's version and its objects as JSON.
    async fn catalog(&self, cluster: &ClusterId) -> Result<Option<(u64, String)>>;

    /// What was observed of each cluster, as JSON.
    async fn observed(&self) -> Result<Vec<(String, String)>>;

    /// Keeps what was observed of clusters that exist. It need not be on the disk when this answers.
    async fn observe(&self, rows: &[(String, String)]) -> Result<()>;

    async fn close(&self);
}
