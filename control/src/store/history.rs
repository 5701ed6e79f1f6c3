//! What was: the log of changes, from which a program can go on where it stopped, and the history of facts. Both are kept
//! for a time, and cut in slices.

use std::time::Duration;

use fairlead_api::{ClusterId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use super::{Audience, Kind, Operation, Revision, Store, StoreError, error::Result, millis};
use crate::model::FactSource;

/// The most lines or versions that are answered at once.
pub const MAX_PAGE: u32 = 10_000;
/// How many lines are cut from the log, or versions from the history, in one transaction.
const SLICE: u32 = 5_000;

/// One thing that one change has touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub revision: Revision,
    /// Counts what one change has touched, from 0.
    pub part: u32,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// A caller's name, `agent:<cluster>`, or `system:hub`.
    pub actor: String,
    /// Id of the API token with which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_token: Option<String>,
    pub kind: Kind,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub operation: Operation,
    /// What is no more so. Of what was updated only what differs; of a secret never more than that there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What is so now, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Who could see it. None: a hub of the version before has written the line. It is nobody's business but the registry's.
    #[serde(skip)]
    pub audience: Option<Audience>,
}

/// A place in the log, before this line of this change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    pub revision: Revision,
    pub part: u32,
}

impl From<Revision> for LogPlace {
    /// Before all of that change.
    fn from(revision: Revision) -> Self {
        LogPlace { revision, part: 0 }
    }
}

impl From<&Change> for LogPlace {
    fn from(line: &Change) -> Self {
        LogPlace {
            revision: line.revision,
            part: line.part,
        }
    }
}

/// Whole changes, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    pub changes: Vec<Change>,
    /// Nothing up to here was left out: the `since` to go on from.
    pub revision: Revision,
}

/// Which lines of the log are wanted; all of them by default.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub thing: Option<(Kind, String)>,
    /// Of things of this tenant and of all below it, as it was before or after the change.
    pub tenant: Option<TenantId>,
    pub actor: Option<String>,
    /// Of what this tenant's people could see, before or after. Lines of the version before, which do not say that, are
    /// among them all.
    pub seen_by: Option<TenantId>,
}

/// A fact as it was from `at` on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactVersion {
    pub cluster: ClusterId,
    pub name: String,
    /// One of the cluster's dynamic facts, not of those that people have set.
    pub dynamic: bool,
    /// In milliseconds since 1970.
    pub at: i64,
    pub revision: Revision,
    pub source: FactSource,
    /// In milliseconds since 1970.
    pub observed: i64,
    /// None: it was removed.
    #[serde(default)]
    pub value: Option<Value>,
}

/// A place among the versions of one fact, the latest first: behind this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactPlace {
    /// In milliseconds since 1970.
    pub at: i64,
    pub cluster: ClusterId,
    pub dynamic: bool,
    pub revision: Revision,
}

impl From<&FactVersion> for FactPlace {
    fn from(version: &FactVersion) -> Self {
        FactPlace {
            at: version.at,
            cluster: version.cluster.clone(),
            dynamic: version.dynamic,
            revision: version.revision,
        }
    }
}

/// Times in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Not this very millisecond any more.
    pub after: i64,
    /// Including this millisecond.
    pub until: i64,
}

impl Default for Span {
    /// All of it.
    fn default() -> Self {
        Span {
            after: i64::MIN,
            until: i64::MAX,
        }
    }
}

/// How long what was is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The log of changes; 7 days by default.
    pub changes: Duration,
    /// The most lines of it; a million by default.
    pub lines: u64,
    /// The history of facts; 400 days by default. What a fact was when that time began is kept longer.
    pub facts: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    fn default() -> Self {
        Retention {
            changes: DAY.saturating_mul(7),
            lines: 1_000_000,
            facts: DAY.saturating_mul(400),
        }
    }
}

/// How much was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tidied {
    pub lines: u64,
    pub facts: u64,
}

impl Store {
    /// The changes after `since`, about `limit` lines of them, none in halves; all that happened is in the log before
    /// [`Store::watch`] tells of it.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if `since` is before what is kept, or has never been.
    pub async fn changes(&self, since: Revision, limit: u32) -> Result<Changes> {
        let limit = limit.clamp(1, MAX_PAGE);
        // Databases count with a sign; so late a revision has never been, either.
        let since = Revision(since.0.min(i64::MAX as u64));
        let page = self.shared.asked().changes(since, limit).await?;
        if since < page.compacted || since > page.revision {
            return Err(StoreError::Compacted {
                oldest: page.compacted,
            });
        }
        let full = u32::try_from(page.changes.len()).unwrap_or(u32::MAX) >= limit;
        let last = page.changes.last().map(|line| line.revision);
        Ok(Changes {
            revision: last.filter(|_| full).unwrap_or(page.revision),
            changes: page.changes,
        })
    }

    /// The latest lines of the log before a place, the latest first.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn audit(
        &self,
        asked: &Asked,
        before: impl Into<LogPlace>,
        limit: u32,
    ) -> Result<Vec<Change>> {
        let mut before = before.into();
        before.revision = Revision(before.revision.0.min(i64::MAX as u64));
        let limit = limit.clamp(1, MAX_PAGE);
        self.shared.asked().audit(asked, before, limit).await
    }

    /// The facts of a cluster, or the one of this name, as they were at a time in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn facts_at(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        at: i64,
    ) -> Result<Vec<FactVersion>> {
        self.shared.asked().facts_at(cluster, name, at).await
    }

    /// What became of a cluster's facts, or of the one of this name, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn fact_versions(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        span: Span,
        limit: u32,
    ) -> Result<Vec<FactVersion>> {
        let limit = limit.clamp(1, MAX_PAGE);
        let backend = self.shared.asked();
        backend.fact_versions(cluster, name, span, limit).await
    }

    /// Where a fact has become another one, the latest first; a cluster is there once for each time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn facts_changed(
        &self,
        name: &str,
        span: Span,
        behind: Option<&FactPlace>,
        limit: u32,
    ) -> Result<Vec<FactVersion>> {
        let limit = limit.clamp(1, MAX_PAGE);
        let backend = self.shared.asked();
        backend.facts_changed(name, span, behind, limit).await
    }

    /// What these changes, which follow each other in the log, have made of facts, those of other hubs left out as far as
    /// this one knows: one that has just started takes all for its own.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn facts_of(&self, changes: &[Change]) -> Result<Vec<FactVersion>> {
        let revisions = changes.iter().map(|line| line.revision);
        let times = changes.iter().map(|line| millis(line.at));
        let (Some(first), Some(last)) = (revisions.clone().min(), revisions.max()) else {
            return Ok(Vec::new());
        };
        let at = (
            times.clone().min().unwrap_or_default(),
            times.max().unwrap_or_default(),
        );
        let since = Revision(first.0.saturating_sub(1));
        let backend = &self.shared.backend;
        let mut versions = backend.fact_versions_since((since, last), at).await?;
        self.shared.foreign.forget(since);
        versions.retain(|version| !self.is_foreign(version.revision));
        Ok(versions)
    }

    /// Whether another hub has made this change, as far as this one knows.
    pub(crate) fn is_foreign(&self, revision: Revision) -> bool {
        self.shared.foreign.has(revision)
    }

    /// Cuts what is older than it needs to be.
    ///
    /// # Errors
    /// [`StoreError`]; what was cut so far is gone.
    pub async fn tidy(&self, keep: &Retention) -> Result<Tidied> {
        let now = millis(self.shared.clock.now());
        let ago = |time: Duration| {
            let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            now.saturating_sub(millis)
        };
        let backend = &self.shared.backend;
        let before = ago(keep.changes);
        Ok(Tidied {
            lines: backend.compact(before, keep.lines, SLICE).await?,
            facts: backend.forget_facts(ago(keep.facts), SLICE).await?,
        })
    }
}
