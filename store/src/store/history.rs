//! Reads and trims the change log and the history of facts.

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

/// Number of rows deleted per transaction.
const ROWS_PER_DELETE: u32 = 5_000;

impl Store {
    /// Complete changes after `since`, about `limit` lines. A change is in the log before
    /// [`Store::watch`] announces it.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if `since` precedes the retained log, or lies in the future.
    pub async fn changes(&self, since: Revision, limit: u32) -> Result<Changes> {
        let limit = limit.clamp(1, MAX_PAGE);
        // Databases use signed integers; a revision beyond their range lies in the future, too.
        let since = Revision(since.0.min(i64::MAX as u64));
        let page = self.shared.counted_backend().changes(since, limit).await?;
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

    /// Lines of the log and of the archive before a position, newest first.
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
        self.shared
            .counted_backend()
            .audit(asked, before, limit)
            .await
    }

    /// The facts of a cluster, or the one with this name, at a time in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn facts_at(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        at: i64,
    ) -> Result<Vec<FactVersion>> {
        self.shared
            .counted_backend()
            .facts_at(cluster, name, at)
            .await
    }

    /// Versions of a cluster's facts, or of the one with this name, oldest first.
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
        let backend = self.shared.counted_backend();
        backend.fact_versions(cluster, name, span, limit).await
    }

    /// Changes of a fact over all clusters, newest first; a cluster occurs once per change.
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
        let backend = self.shared.counted_backend();
        backend.facts_changed(name, span, behind, limit).await
    }

    /// Fact versions written by these consecutive changes. Known commits of other hubs are omitted;
    /// a hub that has just started knows none.
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
        self.shared.remote_commits.forget(since);
        versions.retain(|version| !self.is_foreign(version.revision));
        Ok(versions)
    }

    /// True if this commit is known to be another hub's.
    #[must_use]
    pub fn is_foreign(&self, revision: Revision) -> bool {
        self.shared.remote_commits.contains(revision)
    }

    /// Deletes rows beyond their retention.
    ///
    /// # Errors
    /// [`StoreError`]; slices deleted so far stay deleted.
    pub async fn tidy(&self, keep: &Retention) -> Result<Tidied> {
        let now = millis(self.shared.clock.now());
        let ago = |time: Duration| {
            let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            now.saturating_sub(millis)
        };
        let backend = &self.shared.backend;
        let before = ago(keep.changes);
        Ok(Tidied {
            lines: backend.compact(before, keep.lines, ROWS_PER_DELETE).await?,
            acts: backend.forget_acts(ago(keep.acts), ROWS_PER_DELETE).await?,
            facts: backend
                .forget_facts(ago(keep.facts), ROWS_PER_DELETE)
                .await?,
        })
    }
}
