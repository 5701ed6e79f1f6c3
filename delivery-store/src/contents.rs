//! Contents by digest: artifacts, options of generations, lists of waves. A content never changes.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use fairlead_api::delivery::ArtifactId;
use fairlead_store::{Connections, Store, StoreError};

use crate::database::{Result, durable, int, read, uint};

/// Size of a part in bytes.
const PART_BYTES: usize = 256 * 1024;

/// Contents by digest.
#[derive(Debug, Clone)]
pub struct ContentStore(Connections);

impl ContentStore {
    /// The contents in the database of a store.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        ContentStore(store.connections())
    }

    /// Stores a content, or records its use now if it exists. Durable on return. The caller has checked that the digest is
    /// that of the content. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn put(&self, id: &ArtifactId, content: &[u8], now: i64) -> Result<()> {
        let size = int(content.len() as u64)?;
        durable!(&self.0, |tx| {
            // Waits for a deletion of the same content, so that it is either found or written.
            let used = sqlx::query("UPDATE contents SET at = $2 WHERE id = $1 AND at < $2")
                .bind(id.as_str())
                .bind(now)
                .execute(&mut *tx)
                .await?;
            let known = used.rows_affected() > 0
                || {
                    let new = sqlx::query(
                        "INSERT INTO contents (id, bytes, at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
                    );
                    let new = new.bind(id.as_str()).bind(size).bind(now);
                    new.execute(&mut *tx).await?.rows_affected() == 0
                };
            if !known {
                for (part, bytes) in (0i64..).zip(content.chunks(PART_BYTES)) {
                    sqlx::query("INSERT INTO content_parts (id, part, bytes) VALUES ($1, $2, $3)")
                        .bind(id.as_str())
                        .bind(part)
                        .bind(bytes)
                        .execute(&mut *tx)
                        .await?;
                }
            }
        })
    }

    /// Records the use of a content now; false if it is not stored. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn touch(&self, id: &ArtifactId, now: i64) -> Result<bool> {
        let used: Result<u64> = durable!(&self.0, |tx| {
            let used = sqlx::query("UPDATE contents SET at = $2 WHERE id = $1");
            let used = used.bind(id.as_str()).bind(now).execute(&mut *tx).await?;
            used.rows_affected()
        });
        Ok(used? > 0)
    }

    /// Size of a content in bytes; `None` if it is not stored.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn size(&self, id: &ArtifactId) -> Result<Option<u64>> {
        const READ: &str = "SELECT bytes FROM contents WHERE id = $1";
        let size: Option<i64> = read!(&self.0, |pool| {
            let read = sqlx::query_scalar(READ).bind(id.as_str());
            read.fetch_optional(pool).await?
        });
        size.map(uint).transpose()
    }

    /// A content; `None` if it is not stored.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a part is missing.
    pub async fn get(&self, id: &ArtifactId) -> Result<Option<Bytes>> {
        match self.size(id).await? {
            None => Ok(None),
            Some(size) => Ok(Some(self.range(id, 0, size).await?)),
        }
    }

    /// The bytes of a stored content from `from`, `length` at most.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a part is missing.
    pub async fn range(&self, id: &ArtifactId, from: u64, length: u64) -> Result<Bytes> {
        const READ: &str = "SELECT part, bytes FROM content_parts WHERE id = $1 AND part >= $2 AND part <= $3 ORDER BY part";
        let size = self.size(id).await?.ok_or(StoreError::Missing)?;
        let end = from.saturating_add(length).min(size);
        if from >= end {
            return Ok(Bytes::new());
        }
        let part_bytes = PART_BYTES as u64;
        let (first, last) = (from / part_bytes, (end - 1) / part_bytes);
        let (low, high) = (int(first)?, int(last)?);
        let parts: Vec<(i64, Vec<u8>)> = read!(&self.0, |pool| {
            let read = sqlx::query_as(READ).bind(id.as_str()).bind(low).bind(high);
            read.fetch_all(pool).await?
        });
        let damaged = || StoreError::Damaged(format!("content {id}"));
        let mut found = BytesMut::new();
        for (expected, (part, bytes)) in (low..).zip(&parts) {
            if *part != expected {
                return Err(damaged());
            }
            found.extend_from_slice(bytes);
        }
        let cut = |at: u64| usize::try_from(at - first * part_bytes).map_err(|_| damaged());
        let (start, end) = (cut(from)?, cut(end)?);
        if found.len() < end {
            return Err(damaged());
        }
        Ok(found.freeze().slice(start..end))
    }

    /// Deletes contents that nobody has used since `before` (milliseconds since 1970), except for `used`, and returns their
    /// number.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn forget(&self, before: i64, used: &BTreeSet<ArtifactId>) -> Result<u64> {
        const READ: &str = "SELECT id FROM contents WHERE at < $1";
        let old: Vec<String> = read!(&self.0, |pool| {
            let read = sqlx::query_scalar(READ).bind(before);
            read.fetch_all(pool).await?
        });
        let mut forgotten = 0;
        for id in old {
            if id.parse().is_ok_and(|id: ArtifactId| used.contains(&id)) {
                continue;
            }
            // A use in the meantime keeps the content.
            let deleted: Result<u64> = durable!(&self.0, |tx| {
                let gone = sqlx::query("DELETE FROM contents WHERE id = $1 AND at < $2");
                let gone = gone.bind(&id).bind(before).execute(&mut *tx).await?;
                if gone.rows_affected() > 0 {
                    sqlx::query("DELETE FROM content_parts WHERE id = $1")
                        .bind(&id)
                        .execute(&mut *tx)
                        .await?;
                }
                gone.rows_affected()
            });
            forgotten += deleted?;
        }
        Ok(forgotten)
    }
}
