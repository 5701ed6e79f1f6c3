//! Reads and cuts the change log and the fact history.

use std::time::Duration;

use fairlead_api::ClusterId;

use super::Store;
use crate::{
    error::{Result, StoreError},
    history::{
        Asked, Change, Changes, FactPlace, FactVersion, LogPlace, MAX_PAGE, Retention, Span, Tidied,
    },
    millis::millis,
    revision::Revision,
};

/// How many lines are cut from the log, or versions from the history, in one transaction.
const SLICE: u32 = 5_000;

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
    pub async fn facts_of(&self, changes: &[Change]) -> Result<Vec<FactVersion>> {
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
    #[must_use]
    pub fn is_foreign(&self, revision: Revision) -> bool {
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
