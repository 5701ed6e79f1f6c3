//! Read queries for both databases in their common dialect: `$1` parameters, no casts beyond column
//! types.

/// Documents and catalogs written after revision `$1`.
pub(super) const DOCUMENTS: &str =
    "SELECT kind, id, version, revision, body FROM documents WHERE revision > $1";
pub(super) const CATALOGS: &str =
    "SELECT 'catalog' AS kind, cluster AS id, version, revision, CAST(NULL AS TEXT) AS body
     FROM catalogs WHERE revision > $1";
/// Deletions after revision `$1`, including resources created again.
pub(super) const DELETED: &str =
    "SELECT kind, id, CAST(0 AS BIGINT) AS version, revision, CAST(NULL AS TEXT) AS body
     FROM changes WHERE revision > $1 AND operation = 'deleted'";

pub(super) const CATALOG: &str = "SELECT version, objects FROM catalogs WHERE cluster = $1";
pub(super) const KEYS: &str = "SELECT sealed FROM keys";
pub(super) const KEEP_KEYS: &str =
    "INSERT INTO keys (one, sealed) VALUES (1, $1) ON CONFLICT (one) DO NOTHING";
pub(super) const REPLACE_KEYS: &str = "UPDATE keys SET sealed = $2 WHERE sealed = $1";
pub(super) const TOKEN_USES: &str = "SELECT token, at FROM token_uses";
/// Uses of deleted tokens.
pub(super) const FORGET_TOKEN_USES: &str = "DELETE FROM token_uses WHERE NOT EXISTS (
         SELECT 1 FROM documents WHERE kind = 'token' AND id = token)";
/// Newest migration of the store.
pub(super) const TABLES: &str = "SELECT max(version) FROM _sqlx_migrations";
pub(super) const PROGRAM: &str = "SELECT version FROM program";
pub(super) const OPENED_BY: &str = "INSERT INTO program (one, version) VALUES (1, $1)
     ON CONFLICT (one) DO UPDATE SET version = EXCLUDED.version WHERE program.version <> EXCLUDED.version";
pub(super) const REVISION: &str = "SELECT revision, compacted FROM revision";

/// Complete changes after revision `$1`; the last one begins within `$2` lines.
pub(super) const CHANGES: &str =
    "SELECT revision, part, at, actor, kind, id, tenant, operation, before, after, audience, actor_token FROM changes
     WHERE revision > $1 AND revision <= (
         SELECT max(revision) FROM (
             SELECT revision FROM changes WHERE revision > $1 ORDER BY revision LIMIT $2) AS page)
     ORDER BY revision, part";
/// Newest lines of a table before line `$6` of revision `$1`. `$3` is the resource's tenant or an
/// ancestor, now or before; `$5` is a pattern for the audience.
macro_rules! audit_query {
    ($table:literal, $thing:literal) => {
        concat!(
            "SELECT revision, part, at, actor, kind, id, tenant, operation, before, after, audience, actor_token FROM ",
            $table,
            " WHERE ",
            $thing,
            " (revision, part) < ($1, $6)
       AND (CAST($3 AS TEXT) IS NULL OR tenant = $3 OR audience LIKE '% ' || CAST($3 AS TEXT) || ' %')
       AND (CAST($4 AS TEXT) IS NULL OR actor = $4)
       AND (CAST($5 AS TEXT) IS NULL OR audience IS NULL OR audience LIKE $5)
     ORDER BY revision DESC, part DESC LIMIT $2"
        )
    };
}

/// The log, then the archive of older lines of people.
pub(super) const AUDIT: [&str; 2] = [audit_query!("changes", ""), audit_query!("acts", "")];
/// Like [`AUDIT`] for one resource, by its index.
pub(super) const AUDIT_OF: [&str; 2] = [
    audit_query!("changes", "kind = $7 AND id = $8 AND"),
    audit_query!("acts", "kind = $7 AND id = $8 AND"),
];

/// The facts of a cluster at `$2`, one index seek per name. With a row-value comparison of both
/// columns, PostgreSQL would search the last version again for each version.
pub(super) const FACTS_AT: &str =
    "SELECT h.cluster, h.name, h.dynamic, h.at, h.revision, h.source, h.observed, h.value
     FROM (SELECT DISTINCT name, dynamic FROM fact_history
           WHERE cluster = $1 AND (CAST($3 AS TEXT) IS NULL OR name = $3)) AS n
     JOIN fact_history AS h ON h.cluster = $1 AND h.name = n.name AND h.dynamic = n.dynamic
      AND h.at = (
          SELECT l.at FROM fact_history AS l
          WHERE l.cluster = $1 AND l.name = n.name AND l.dynamic = n.dynamic AND l.at <= $2
          ORDER BY l.at DESC, l.revision DESC LIMIT 1)
      AND h.revision = (
          SELECT l.revision FROM fact_history AS l
          WHERE l.cluster = $1 AND l.name = n.name AND l.dynamic = n.dynamic AND l.at <= $2
          ORDER BY l.at DESC, l.revision DESC LIMIT 1)
     WHERE h.value IS NOT NULL ORDER BY h.name, h.dynamic";
pub(super) const VERSIONS: &str =
    "SELECT cluster, name, dynamic, at, revision, source, observed, value FROM fact_history
     WHERE cluster = $1 AND at > $2 AND at <= $3
     ORDER BY at, revision, name, dynamic LIMIT $4";
/// By the primary key: without `+ 0` SQLite uses the index by name and time, and scans the fact of
/// all clusters.
pub(super) const VERSIONS_OF: &str =
    "SELECT cluster, name, dynamic, at, revision, source, observed, value FROM fact_history
     WHERE cluster = $1 AND name = $5 AND at + 0 > $2 AND at + 0 <= $3
     ORDER BY at + 0, revision, dynamic LIMIT $4";
/// By the index on name and time, backwards from `$3`.
pub(super) const CHANGED: &str =
    "SELECT cluster, name, dynamic, at, revision, source, observed, value FROM fact_history
     WHERE name = $1 AND at > $2 AND (at, cluster, dynamic, revision) < ($3, $5, $6, $7)
     ORDER BY at DESC, cluster DESC, dynamic DESC, revision DESC LIMIT $4";

/// Fact versions of the changes after revision `$1` up to `$2`. The time range allows the index by
/// time.
pub(super) const VERSIONS_SINCE: &str =
    "SELECT cluster, name, dynamic, at, revision, source, observed, value FROM fact_history
     WHERE revision > $1 AND revision <= $2 AND at >= $3 AND at <= $4
     ORDER BY revision, cluster, name, dynamic";

/// Revision of the last line older than `$1`, and of the line with `$2` lines after it.
pub(super) const OLD: &str = "SELECT revision FROM changes WHERE at < $1 ORDER BY at DESC LIMIT 1";
pub(super) const EXCESS: &str =
    "SELECT revision FROM changes ORDER BY revision DESC LIMIT 1 OFFSET $1";
/// End of the oldest `$1` lines.
pub(super) const SLICE: &str = "SELECT revision FROM changes ORDER BY revision LIMIT 1 OFFSET $1";
pub(super) const COMPACTED: &str = "UPDATE revision SET compacted = $1 WHERE compacted < $1";
/// Keeps lines of people and of the hub; names of agents alone begin with `agent:`.
pub(super) const ARCHIVE: &str = "INSERT INTO acts (revision, part, at, actor, kind, id, tenant, operation, before, after, audience, actor_token)
     SELECT revision, part, at, actor, kind, id, tenant, operation, before, after, audience, actor_token FROM changes
     WHERE revision <= $1 AND actor NOT LIKE 'agent:%'";
/// Archived lines older than `$1`; `$2` per call.
pub(super) const FORGET_ACTS: &str = "DELETE FROM acts WHERE (revision, part) IN (
         SELECT revision, part FROM acts WHERE at < $1 ORDER BY at LIMIT $2)";
pub(super) const FORGET: &str = "DELETE FROM changes WHERE revision <= $1";

/// Versions superseded by `$1`; `$2` per call.
pub(super) const FORGET_FACTS: &str = "DELETE FROM fact_history
     WHERE (cluster, name, dynamic, at, revision) IN (
         SELECT h.cluster, h.name, h.dynamic, h.at, h.revision FROM fact_history AS h
         WHERE h.at < $1 AND EXISTS (
             SELECT 1 FROM fact_history AS n
             WHERE n.cluster = h.cluster AND n.name = h.name AND n.dynamic = h.dynamic
               AND (n.at, n.revision) > (h.at, h.revision) AND n.at <= $1)
         LIMIT $2)";
/// Facts removed by `$1` without earlier versions.
pub(super) const FORGET_REMOVED: &str = "DELETE FROM fact_history
     WHERE (cluster, name, dynamic, at, revision) IN (
         SELECT h.cluster, h.name, h.dynamic, h.at, h.revision FROM fact_history AS h
         WHERE h.at < $1 AND h.value IS NULL AND NOT EXISTS (
             SELECT 1 FROM fact_history AS o
             WHERE o.cluster = h.cluster AND o.name = h.name AND o.dynamic = h.dynamic
               AND (o.at, o.revision) < (h.at, h.revision))
         LIMIT $2)";

/// Number of changes in the log, and of those with a missing line.
pub(super) const LOG_SHAPE: &str = "SELECT count(*), CAST(coalesce(sum(torn), 0) AS BIGINT) FROM (
         SELECT CASE WHEN max(part) + 1 = count(*) THEN 0 ELSE 1 END AS torn FROM changes GROUP BY revision) AS shape";
/// Last line of each resource.
pub(super) const LAST_LINES: &str =
    "SELECT c.kind, c.id, CAST(0 AS BIGINT) AS version, c.revision, CASE c.operation WHEN 'deleted' THEN NULL ELSE c.operation END AS body
     FROM changes AS c
     JOIN (SELECT kind, id, max(revision) AS revision FROM changes GROUP BY kind, id) AS l
       ON l.kind = c.kind AND l.id = c.id AND l.revision = c.revision";

/// Reading half of a [`Backend`](crate::backend::Backend) for one database. Generic code over both
/// sqlx databases would need more bounds than the queries have lines.
macro_rules! reads {
    ($database:ty, $snapshot:literal) => {
        use fairlead_api::ClusterId;
        use sqlx::Pool;

        use crate::{
            audience::Audience,
            backend::{LoadedRows, LogPage, LogSummary},
            error::Result,
            history::{Asked, Change, FactPlace, FactVersion, LogPlace, Span},
            queries,
            revision::Revision,
            rows::{self, int, uint},
        };

        type Database = $database;

        pub(super) async fn load(
            pool: &Pool<Database>,
            since: Revision,
        ) -> Result<Option<LoadedRows>> {
            let mut tx = pool.begin_with($snapshot).await?;
            let since_number = int(since.0)?;
            let (revision, compacted): (i64, i64) = sqlx::query_as(queries::REVISION)
                .fetch_one(&mut *tx)
                .await?;
            let mut found: [Vec<rows::DocumentColumns>; 3] = Default::default();
            let all = [queries::DELETED, queries::DOCUMENTS, queries::CATALOGS];
            for (query, found) in all.into_iter().zip(&mut found) {
                if since.0 == 0 && query == queries::DELETED {
                    continue;
                }
                let query = sqlx::query_as(query).bind(since_number);
                *found = query.fetch_all(&mut *tx).await?;
            }
            let [deleted, documents, catalogs] = found;
            if since.0 > 0 && since_number < compacted {
                return Ok(None);
            }
            Ok(Some(LoadedRows {
                revision: Revision(uint(revision)?),
                deleted: rows::all(deleted)?,
                documents: rows::all(documents)?,
                catalogs: rows::all(catalogs)?,
            }))
        }

        pub(super) async fn log_summary(pool: &Pool<Database>) -> Result<LogSummary> {
            let mut tx = pool.begin_with($snapshot).await?;
            let (revision, compacted): (i64, i64) = sqlx::query_as(queries::REVISION)
                .fetch_one(&mut *tx)
                .await?;
            let (changes, torn): (i64, i64) = sqlx::query_as(queries::LOG_SHAPE)
                .fetch_one(&mut *tx)
                .await?;
            let last: Vec<rows::DocumentColumns> = sqlx::query_as(queries::LAST_LINES)
                .fetch_all(&mut *tx)
                .await?;
            Ok(LogSummary {
                revision: uint(revision)?,
                compacted: uint(compacted)?,
                changes: uint(changes)?,
                torn: uint(torn)?,
                last: rows::all(last)?,
            })
        }

        pub(super) async fn catalog(
            pool: &Pool<Database>,
            cluster: &ClusterId,
        ) -> Result<Option<(u64, String)>> {
            let row: Option<(i64, String)> = sqlx::query_as(queries::CATALOG)
                .bind(cluster.as_str())
                .fetch_optional(pool)
                .await?;
            row.map(|(version, objects)| Ok((uint(version)?, objects)))
                .transpose()
        }

        /// Newest migration of a store, and the program version that opened it last, if known.
        /// `None` without tables.
        pub(super) async fn tables(
            pool: &Pool<Database>,
        ) -> std::result::Result<Option<(i64, Option<String>)>, sqlx::Error> {
            let version: Option<i64> =
                match sqlx::query_scalar(queries::TABLES).fetch_one(pool).await {
                    Ok(version) => version,
                    Err(error) if rows::is_missing_table(&error) => None,
                    Err(error) => return Err(error),
                };
            let Some(version) = version else {
                return Ok(None);
            };
            let program = sqlx::query_scalar(queries::PROGRAM)
                .fetch_optional(pool)
                .await;
            Ok(Some((version, program.unwrap_or_default())))
        }

        /// Records this program's version.
        pub(super) async fn opened_by(
            pool: &Pool<Database>,
            version: &str,
        ) -> std::result::Result<(), sqlx::Error> {
            let kept = sqlx::query(queries::OPENED_BY).bind(version);
            kept.execute(pool).await.map(drop)
        }

        pub(super) async fn keys(pool: &Pool<Database>) -> Result<Option<String>> {
            let kept = sqlx::query_scalar(queries::KEYS);
            Ok(kept.fetch_optional(pool).await?)
        }

        pub(super) async fn keep_keys(pool: &Pool<Database>, sealed: &str) -> Result<bool> {
            let kept = sqlx::query(queries::KEEP_KEYS).bind(sealed);
            Ok(kept.execute(pool).await?.rows_affected() == 1)
        }

        pub(super) async fn replace_keys(
            pool: &Pool<Database>,
            old: &str,
            new: &str,
        ) -> Result<bool> {
            let replaced = sqlx::query(queries::REPLACE_KEYS).bind(old).bind(new);
            Ok(replaced.execute(pool).await?.rows_affected() == 1)
        }

        pub(super) async fn token_uses(pool: &Pool<Database>) -> Result<Vec<(String, i64)>> {
            let read = sqlx::query_as(queries::TOKEN_USES);
            Ok(read.fetch_all(pool).await?)
        }

        pub(super) async fn changes(
            pool: &Pool<Database>,
            since: Revision,
            limit: u32,
        ) -> Result<LogPage> {
            let mut tx = pool.begin_with($snapshot).await?;
            let (revision, compacted): (i64, i64) = sqlx::query_as(queries::REVISION)
                .fetch_one(&mut *tx)
                .await?;
            let lines: Vec<rows::ChangeColumns> = sqlx::query_as(queries::CHANGES)
                .bind(int(since.0)?)
                .bind(i64::from(limit))
                .fetch_all(&mut *tx)
                .await?;
            Ok(LogPage {
                revision: Revision(uint(revision)?),
                compacted: Revision(uint(compacted)?),
                changes: rows::all(lines)?,
            })
        }

        pub(super) async fn audit(
            pool: &Pool<Database>,
            asked: &Asked,
            before: LogPlace,
            limit: u32,
        ) -> Result<Vec<Change>> {
            let tables = match &asked.thing {
                Some(_) => queries::AUDIT_OF,
                None => queries::AUDIT,
            };
            // Each line is in one of both: a trim moves it in one transaction.
            let mut tx = pool.begin_with($snapshot).await?;
            let mut lines: Vec<rows::ChangeColumns> = Vec::new();
            for query in tables {
                let missing = usize::try_from(limit).unwrap_or(usize::MAX) - lines.len();
                let mut query = sqlx::query_as(query)
                    .bind(int(before.revision.0)?)
                    .bind(i64::try_from(missing).unwrap_or(i64::MAX))
                    .bind(asked.tenant.as_ref().map(ToString::to_string))
                    .bind(&asked.actor)
                    .bind(asked.seen_by.as_ref().map(Audience::pattern))
                    .bind(i64::from(before.part));
                if let Some((kind, id)) = &asked.thing {
                    query = query.bind(kind.as_str()).bind(id);
                }
                lines.extend::<Vec<rows::ChangeColumns>>(query.fetch_all(&mut *tx).await?);
                if lines.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
                    break;
                }
            }
            rows::all(lines)
        }

        pub(super) async fn facts_at(
            pool: &Pool<Database>,
            cluster: &ClusterId,
            name: Option<&str>,
            at: i64,
        ) -> Result<Vec<FactVersion>> {
            let found: Vec<rows::FactColumns> = sqlx::query_as(queries::FACTS_AT)
                .bind(cluster.as_str())
                .bind(at)
                .bind(name)
                .fetch_all(pool)
                .await?;
            rows::all(found)
        }

        pub(super) async fn fact_versions(
            pool: &Pool<Database>,
            cluster: &ClusterId,
            name: Option<&str>,
            span: Span,
            limit: u32,
        ) -> Result<Vec<FactVersion>> {
            let query = match name {
                Some(_) => queries::VERSIONS_OF,
                None => queries::VERSIONS,
            };
            let mut query = sqlx::query_as(query)
                .bind(cluster.as_str())
                .bind(span.after)
                .bind(span.until)
                .bind(i64::from(limit));
            if let Some(name) = name {
                query = query.bind(name);
            }
            let found: Vec<rows::FactColumns> = query.fetch_all(pool).await?;
            rows::all(found)
        }

        pub(super) async fn facts_changed(
            pool: &Pool<Database>,
            name: &str,
            span: Span,
            behind: Option<&FactPlace>,
            limit: u32,
        ) -> Result<Vec<FactVersion>> {
            // Starts after the last millisecond of the range.
            let end = span.until.saturating_add(1);
            let (at, cluster, dynamic, revision) = match behind {
                Some(it) if it.at < end => (it.at, it.cluster.as_str(), it.dynamic, it.revision),
                _ => (end, "", false, Revision(0)),
            };
            let found: Vec<rows::FactColumns> = sqlx::query_as(queries::CHANGED)
                .bind(name)
                .bind(span.after)
                .bind(at)
                .bind(i64::from(limit))
                .bind(cluster)
                .bind(dynamic)
                .bind(int(revision.0)?)
                .fetch_all(pool)
                .await?;
            rows::all(found)
        }

        pub(super) async fn fact_versions_since(
            pool: &Pool<Database>,
            (since, until): (Revision, Revision),
            (from, to): (i64, i64),
        ) -> Result<Vec<FactVersion>> {
            let found: Vec<rows::FactColumns> = sqlx::query_as(queries::VERSIONS_SINCE)
                .bind(int(since.0)?)
                .bind(int(until.0)?)
                .bind(from)
                .bind(to)
                .fetch_all(pool)
                .await?;
            rows::all(found)
        }

        /// Revision up to which the log may be trimmed.
        async fn floor(pool: &Pool<Database>, before: i64, keep: u64) -> Result<Option<i64>> {
            let old: Option<i64> = sqlx::query_scalar(queries::OLD)
                .bind(before)
                .fetch_optional(pool)
                .await?;
            let excess: Option<i64> = sqlx::query_scalar(queries::EXCESS)
                .bind(int(keep)?)
                .fetch_optional(pool)
                .await?;
            Ok(old.max(excess))
        }

        /// In slices, so that no other operation waits long.
        pub(super) async fn compact(
            pool: &Pool<Database>,
            before: i64,
            keep: u64,
            slice: u32,
        ) -> Result<u64> {
            let Some(floor) = floor(pool, before, keep).await? else {
                return Ok(0);
            };
            let mut gone = 0;
            loop {
                let mut tx = pool.begin().await?;
                let end: Option<i64> = sqlx::query_scalar(queries::SLICE)
                    .bind(i64::from(slice))
                    .fetch_optional(&mut *tx)
                    .await?;
                let end = end.map_or(floor, |end| end.min(floor));
                for query in [queries::COMPACTED, queries::ARCHIVE, queries::FORGET] {
                    let done = sqlx::query(query).bind(end).execute(&mut *tx).await?;
                    if query == queries::FORGET {
                        gone += done.rows_affected();
                    }
                }
                tx.commit().await?;
                if end >= floor {
                    return Ok(gone);
                }
            }
        }

        /// In slices as well.
        pub(super) async fn forget_acts(
            pool: &Pool<Database>,
            before: i64,
            slice: u32,
        ) -> Result<u64> {
            forget(pool, queries::FORGET_ACTS, before, slice).await
        }

        pub(super) async fn forget_facts(
            pool: &Pool<Database>,
            before: i64,
            slice: u32,
        ) -> Result<u64> {
            let changed = forget(pool, queries::FORGET_FACTS, before, slice).await?;
            let removed = forget(pool, queries::FORGET_REMOVED, before, slice).await?;
            Ok(changed + removed)
        }

        /// Deletes rows older than `before`, a slice at a time; returns their number.
        async fn forget(
            pool: &Pool<Database>,
            query: &'static str,
            before: i64,
            slice: u32,
        ) -> Result<u64> {
            let mut gone = 0;
            loop {
                let done = sqlx::query(query).bind(before).bind(i64::from(slice));
                let done = done.execute(pool).await?.rows_affected();
                gone += done;
                if done < u64::from(slice) {
                    return Ok(gone);
                }
            }
        }
    };
}

pub(super) use reads;
