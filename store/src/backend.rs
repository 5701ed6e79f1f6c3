//! Interface to a database: stores rows and serialises commits of several hubs by revision. Free of
//! domain logic.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fairlead_api::{ClusterId, HubUrl};
use tokio::sync::mpsc;

use crate::{
    agent_hubs::AgentAddress,
    connections::Connections,
    error::Result,
    heartbeats::HubRow,
    history::{Asked, Change, FactPlace, FactVersion, LogPlace, Span},
    parts::PartRow,
    record::Kind,
    revision::Revision,
    tables::DumpPart,
};

/// A stored document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DocumentRow {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) version: u64,
    pub(super) revision: Revision,
    /// JSON; `None` if deleted.
    pub(super) body: Option<String>,
}

/// Several changes committed together.
#[derive(Debug, Default)]
pub(super) struct ChangeBatch {
    /// Revision of the last change.
    pub(super) revision: Revision,
    /// Deleted clusters, including those created again: their dependent rows are removed before any
    /// write.
    pub(super) gone: BTreeSet<String>,
    /// Final state of each document.
    pub(super) documents: BTreeMap<(Kind, String), DocumentRow>,
    pub(super) catalogs: BTreeMap<String, DocumentRow>,
    pub(super) log: Vec<Change>,
    pub(super) facts: Vec<FactVersion>,
}

/// Result of committing a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    Done,
    /// Another hub committed first; nothing was written.
    Behind,
}

/// Full content, or the changes since a revision.
#[derive(Debug, Default)]
pub(super) struct LoadedRows {
    pub(super) revision: Revision,
    /// Applied before everything else.
    pub(super) deleted: Vec<DocumentRow>,
    pub(super) documents: Vec<DocumentRow>,
    /// Without bodies.
    pub(super) catalogs: Vec<DocumentRow>,
}

/// A page of the change log.
#[derive(Debug)]
pub(super) struct LogPage {
    /// Newest revision.
    pub(super) revision: Revision,
    /// Lines up to this revision were removed.
    pub(super) compacted: Revision,
    pub(super) changes: Vec<Change>,
}

/// Consistency data of the change log.
#[derive(Debug)]
pub(super) struct LogSummary {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    /// Number of distinct changes.
    pub(super) changes: u64,
    /// Number of changes with a missing line.
    pub(super) torn: u64,
    /// Last line of each resource; without a body if deleted.
    pub(super) last: Vec<DocumentRow>,
}

/// Observed status of a cluster by one hub.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct ObservedRow {
    pub(super) cluster: String,
    /// Empty in a database used by one hub.
    pub(super) hub: String,
    /// Increases with each batch of rows, in commit order; 0 with a single writer.
    pub(super) seq: i64,
    /// JSON; empty if withdrawn.
    pub(super) body: String,
}

/// A hub's message to the others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heartbeat<'a> {
    /// The hub starts, replacing this ended one.
    Begin {
        instead_of: Option<&'a str>,
    },
    On,
    /// The hub ends.
    End,
}

/// This hub as the others find it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnHub<'a> {
    pub(super) id: &'a str,
    pub(super) url: &'a HubUrl,
    pub(super) address: &'a HubUrl,
    pub(super) agents: &'a AgentAddress,
}

/// A database that stores the rows.
#[async_trait]
pub(super) trait Backend: Send + Sync {
    /// Loads rows written after `since` at one consistent revision, or everything if `since` is 0.
    /// `None` if deletions since then are no longer known.
    async fn load(&self, since: Revision) -> Result<Option<LoadedRows>>;

    /// Commits a batch atomically if `on` is the newest revision. Durable on return.
    async fn commit(&self, batch: &ChangeBatch, on: Revision) -> Result<Committed>;

    /// A catalog's version and its objects as JSON.
    async fn catalog(&self, cluster: &ClusterId) -> Result<Option<(u64, String)>>;

    /// The hubs' sealed keys.
    async fn keys(&self) -> Result<Option<String>>;

    /// Stores the sealed keys, durable on return; false if keys exist.
    async fn keep_keys(&self, sealed: &str) -> Result<bool>;

    /// Replaces the sealed keys, durable on return; false if they are others than `old`.
    async fn replace_keys(&self, old: &str, new: &str) -> Result<bool>;

    /// Connections for tables of other crates.
    fn connections(&self) -> Connections;

    /// True if several hubs may share the database.
    fn is_shared(&self) -> bool;

    /// Observed status written after `since`, and all of the clusters `again`.
    async fn seen(&self, since: i64, again: &[String]) -> Result<Vec<ObservedRow>>;

    /// Writes observed status of existing clusters (cluster and body), and removes rows (cluster
    /// and hub) merged into them. Not necessarily durable on return.
    async fn observe(
        &self,
        hub: &str,
        rows: &[(String, String)],
        folded: &[(String, String)],
    ) -> Result<()>;

    /// Last use of each API token, in milliseconds since 1970.
    async fn token_uses(&self) -> Result<Vec<(String, i64)>>;

    /// Records uses of API tokens that exist; an older use never replaces a newer one. Not
    /// necessarily durable on return.
    async fn record_token_uses(&self, uses: &[(String, i64)]) -> Result<()>;

    /// All hubs of this database, including ended ones with remaining observations.
    async fn hubs(&self) -> Result<Vec<HubRow>>;

    /// Records that this hub is alive, or has ended.
    async fn beat(&self, hub: OwnHub<'_>, beat: Heartbeat<'_>) -> Result<()>;

    /// Acquires or confirms the leadership; false if another hub has it. After an error this hub does not have it.
    async fn lead(&self) -> Result<bool> {
        Ok(true)
    }

    /// Leaves the leadership to another hub.
    async fn resign(&self) {}

    /// Calls all hubs for their parts of a list; returns the number of the call.
    async fn call_for_parts(&self) -> Result<i64> {
        Ok(0)
    }

    /// Number of the last call; 0 without one.
    async fn part_call(&self) -> Result<i64> {
        Ok(0)
    }

    /// Writes this hub's answer to a call. Not necessarily durable on return.
    async fn put_part(&self, _hub: &str, _seq: i64, _body: &str) -> Result<()> {
        Ok(())
    }

    /// Answers to this call, or to a later one.
    async fn parts(&self, _seq: i64) -> Result<Vec<PartRow>> {
        Ok(Vec::new())
    }

    /// Complete changes after `since`; the page ends with the change that reaches `limit` lines.
    async fn changes(&self, since: Revision, limit: u32) -> Result<LogPage>;

    /// Lines before a position, newest first.
    async fn audit(&self, asked: &Asked, before: LogPlace, limit: u32) -> Result<Vec<Change>>;

    /// Trims lines older than `before` (milliseconds since 1970) and beyond the newest `keep`, in
    /// slices; returns their number. Those of people move to the archive.
    async fn compact(&self, before: i64, keep: u64, slice: u32) -> Result<u64>;

    /// Deletes archived lines older than a time, in slices; returns their number.
    async fn forget_acts(&self, before: i64, slice: u32) -> Result<u64>;

    async fn facts_at(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        at: i64,
    ) -> Result<Vec<FactVersion>>;

    /// Oldest first.
    async fn fact_versions(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        span: Span,
        limit: u32,
    ) -> Result<Vec<FactVersion>>;

    /// Newest first.
    async fn facts_changed(
        &self,
        name: &str,
        span: Span,
        behind: Option<&FactPlace>,
        limit: u32,
    ) -> Result<Vec<FactVersion>>;

    /// Versions of facts written by the changes after one revision up to another; `at` is the time
    /// range of those changes.
    async fn fact_versions_since(
        &self,
        revisions: (Revision, Revision),
        at: (i64, i64),
    ) -> Result<Vec<FactVersion>>;

    /// Deletes versions superseded before a time, in slices; returns their number.
    async fn forget_facts(&self, before: i64, slice: u32) -> Result<u64>;

    /// Defects reported by the database's own check.
    async fn integrity(&self) -> Result<Vec<String>>;

    async fn log_summary(&self) -> Result<LogSummary>;

    /// Sends all rows of one snapshot, and an end marker.
    async fn export(&self, to: mpsc::Sender<DumpPart>) -> Result<()>;

    /// Replaces all rows; nothing changes without an end marker.
    async fn import(&self, from: mpsc::Receiver<DumpPart>) -> Result<()>;

    /// Completes when another hub may have committed.
    async fn remote_commit(&self);

    /// Newest revision.
    async fn revision(&self) -> Result<Revision>;

    async fn close(&self);
}
