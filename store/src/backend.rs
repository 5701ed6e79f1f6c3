//! What the store asks of a database: keep rows, and let one hub at a time go on from a revision. It knows no meaning.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fairlead_api::ClusterId;
use tokio::sync::mpsc;

use crate::{
    error::Result,
    history::{Asked, Change, FactPlace, FactVersion, LogPlace, Span},
    peers::HubRow,
    record::Kind,
    revision::Revision,
    tables::Part,
};

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

/// Several changes, committed together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Of the last of them.
    pub(super) revision: Revision,
    /// Clusters that were deleted, whether or not they were made again: what hangs on them goes before all else is written.
    pub(super) gone: BTreeSet<String>,
    /// As each is in the end.
    pub(super) documents: BTreeMap<(Kind, String), DocumentRow>,
    pub(super) catalogs: BTreeMap<String, DocumentRow>,
    pub(super) log: Vec<Change>,
    pub(super) facts: Vec<FactVersion>,
}

/// Whether a batch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    Done,
    /// Another hub was faster; nothing was written.
    Behind,
}

/// What is there, or what has changed since a revision.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) revision: Revision,
    /// Before all else.
    pub(super) deleted: Vec<DocumentRow>,
    pub(super) documents: Vec<DocumentRow>,
    /// Without their bodies.
    pub(super) catalogs: Vec<DocumentRow>,
}

/// Some lines of the change log.
#[derive(Debug)]
pub(super) struct Page {
    /// The last one there is.
    pub(super) revision: Revision,
    /// Lines up to here are in the log no more.
    pub(super) compacted: Revision,
    pub(super) changes: Vec<Change>,
}

/// What the change log says of itself.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    /// How many there are lines of.
    pub(super) changes: u64,
    /// How many of them lack a line.
    pub(super) torn: u64,
    /// The last line of each thing; no body where it was deleted.
    pub(super) last: Vec<DocumentRow>,
}

/// What one hub has seen of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct SeenRow {
    pub(super) cluster: String,
    /// Nothing in a database that one hub has alone.
    pub(super) hub: String,
    /// Rises with each batch of rows, in the order of their commits; 0 where nobody else writes.
    pub(super) seq: i64,
    /// JSON; empty: nothing any more.
    pub(super) body: String,
}

/// What a hub says of itself to the others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beat<'a> {
    /// It begins, in the place of this one, which has ended.
    Begin {
        instead_of: Option<&'a str>,
    },
    On,
    /// It ends.
    End,
}

/// A database that keeps the rows.
#[async_trait]
pub(super) trait Backend: Send + Sync {
    /// What belongs into the view, at one revision: what was written after `since`, or all of it where that is 0. None if
    /// nobody knows any more what was deleted since then.
    async fn load(&self, since: Revision) -> Result<Option<Loaded>>;

    /// Writes a batch, all of it or nothing, if `on` is the last revision. It is on the disk when this answers.
    async fn commit(&self, batch: &Batch, on: Revision) -> Result<Committed>;

    /// A catalog's version and its objects as JSON.
    async fn catalog(&self, cluster: &ClusterId) -> Result<Option<(u64, String)>>;

    /// The sealed keys of the hubs.
    async fn keys(&self) -> Result<Option<String>>;

    /// Keeps them, on the disk when this answers; false if there are some already.
    async fn keep_keys(&self, sealed: &str) -> Result<bool>;

    /// Whether several hubs may share it.
    fn is_shared(&self) -> bool;

    /// What hubs have seen of clusters: what was written after `since`, and all of the clusters `again`.
    async fn seen(&self, since: i64, again: &[String]) -> Result<Vec<SeenRow>>;

    /// Keeps what this hub has seen of clusters that exist (cluster and body), and lets go of rows (cluster and hub) that are
    /// in these now. It need not be on the disk when this answers.
    async fn observe(
        &self,
        hub: &str,
        rows: &[(String, String)],
        folded: &[(String, String)],
    ) -> Result<()>;

    /// All hubs on this database, those that were, too, as long as anything is left of what they have seen.
    async fn hubs(&self) -> Result<Vec<HubRow>>;

    /// Says of this hub, which is at `url`, that it lives, or that it does no more.
    async fn beat(&self, hub: &str, url: &str, beat: Beat<'_>) -> Result<()>;

    /// Whole changes after `since`, as many as begin within `limit` lines.
    async fn changes(&self, since: Revision, limit: u32) -> Result<Page>;

    /// The latest lines before a place, the latest first.
    async fn audit(&self, asked: &Asked, before: LogPlace, limit: u32) -> Result<Vec<Change>>;

    /// Forgets lines that are older than `before`, in milliseconds since 1970, and more than `keep`, in slices; says how
    /// many.
    async fn compact(&self, before: i64, keep: u64, slice: u32) -> Result<u64>;

    async fn facts_at(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        at: i64,
    ) -> Result<Vec<FactVersion>>;

    /// The oldest first.
    async fn fact_versions(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        span: Span,
        limit: u32,
    ) -> Result<Vec<FactVersion>>;

    /// The latest first.
    async fn facts_changed(
        &self,
        name: &str,
        span: Span,
        behind: Option<&FactPlace>,
        limit: u32,
    ) -> Result<Vec<FactVersion>>;

    /// What changes after one revision, up to another one, have made of facts; `at` is when the first and the last of those
    /// were.
    async fn fact_versions_since(
        &self,
        revisions: (Revision, Revision),
        at: (i64, i64),
    ) -> Result<Vec<FactVersion>>;

    /// Forgets facts that had become others before a time, in slices; says how many.
    async fn forget_facts(&self, before: i64, slice: u32) -> Result<u64>;

    /// What the database itself finds wrong.
    async fn integrity(&self) -> Result<Vec<String>>;

    async fn ledger(&self) -> Result<Ledger>;

    /// All rows as they were at one moment, and an end.
    async fn export(&self, to: mpsc::Sender<Part>) -> Result<()>;

    /// Puts these rows in the place of all there are; nothing happens if they come to no end.
    async fn import(&self, from: mpsc::Receiver<Part>) -> Result<()>;

    /// Until another hub may have changed something.
    async fn moved(&self);

    /// Of the last change there is.
    async fn revision(&self) -> Result<Revision>;

    async fn close(&self);
}
