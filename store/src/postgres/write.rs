//! Writes a batch with one statement per table: a commit costs a few round trips for any number of
//! changes.

use sqlx::{PgConnection, PgPool};

use crate::{
    backend::{ChangeBatch, Committed, DocumentRow},
    error::Result,
    history::{Change, FactVersion},
    millis::millis,
    revision::Revision,
    rows::int,
};

/// Notification channel for commits.
pub(super) const NOTIFY_CHANNEL: &str = "fairlead_revision";

/// Number of remembered commit nonces: more than can occur during one commit's wait.
const MAX_NONCES: i64 = 100_000;

pub(super) async fn commit(
    pool: &PgPool,
    batch: &ChangeBatch,
    on: Revision,
    nonce: i64,
) -> Result<Committed> {
    let mut tx = pool.begin().await?;
    let revision = int(batch.revision.0)?;
    // Locks the row: another hub waits here, and then finds its revision outdated.
    let moved = sqlx::query("UPDATE revision SET revision = $1 WHERE revision = $2")
        .bind(revision)
        .bind(int(on.0)?)
        .execute(&mut *tx)
        .await?;
    if moved.rows_affected() == 0 {
        let ours = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM commits WHERE revision = $1 AND nonce = $2)",
        )
        .bind(revision)
        .bind(nonce)
        .fetch_one(&mut *tx)
        .await?;
        return Ok(if ours {
            Committed::Done
        } else {
            Committed::Behind
        });
    }
    sqlx::query("INSERT INTO commits (revision, nonce) VALUES ($1, $2)")
        .bind(revision)
        .bind(nonce)
        .execute(&mut *tx)
        .await?;
    sqlx::query("DELETE FROM commits WHERE revision < $1")
        .bind(revision.saturating_sub(MAX_NONCES))
        .execute(&mut *tx)
        .await?;
    forget(&mut tx, batch).await?;
    put_documents(&mut tx, batch).await?;
    put_catalogs(&mut tx, batch).await?;
    put_changes(&mut tx, &batch.log).await?;
    put_facts(&mut tx, &batch.facts).await?;
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(NOTIFY_CHANNEL)
        .bind(revision.to_string())
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(Committed::Done)
}

async fn forget(tx: &mut PgConnection, batch: &ChangeBatch) -> Result<()> {
    let gone: Vec<&str> = batch.gone.iter().map(String::as_str).collect();
    if !gone.is_empty() {
        for query in [
            "DELETE FROM catalogs WHERE cluster = ANY($1)",
            "DELETE FROM observed WHERE cluster = ANY($1)",
            "DELETE FROM deployments WHERE cluster = ANY($1)",
            "DELETE FROM run_logs USING runs WHERE runs.id = run_logs.run AND runs.cluster = ANY($1)",
            "DELETE FROM runs WHERE cluster = ANY($1)",
        ] {
            sqlx::query(query).bind(&gone).execute(&mut *tx).await?;
        }
    }
    let doomed = batch.documents.values().filter(|row| row.body.is_none());
    let (kinds, ids): (Vec<_>, Vec<_>) = doomed.map(|row| (row.kind.as_str(), &*row.id)).unzip();
    if !ids.is_empty() {
        sqlx::query(
            "DELETE FROM documents USING UNNEST($1::TEXT[], $2::TEXT[]) AS doomed (kind, id)
             WHERE documents.kind = doomed.kind AND documents.id = doomed.id",
        )
        .bind(kinds)
        .bind(ids)
        .execute(tx)
        .await?;
    }
    Ok(())
}

async fn put_documents(tx: &mut PgConnection, batch: &ChangeBatch) -> Result<()> {
    let rows = batch.documents.values().filter(|row| row.body.is_some());
    let rows: Vec<&DocumentRow> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO documents (kind, id, version, revision, body)
         SELECT * FROM UNNEST($1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::TEXT[])
         ON CONFLICT (kind, id) DO UPDATE
         SET version = EXCLUDED.version, revision = EXCLUDED.revision, body = EXCLUDED.body",
    )
    .bind(column(&rows, |row| row.kind.as_str()))
    .bind(column(&rows, |row| row.id.as_str()))
    .bind(numbers(&rows, |row| row.version)?)
    .bind(numbers(&rows, |row| row.revision.0)?)
    .bind(column(&rows, |row| row.body.as_deref()))
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_catalogs(tx: &mut PgConnection, batch: &ChangeBatch) -> Result<()> {
    let rows: Vec<&DocumentRow> = batch.catalogs.values().collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO catalogs (cluster, version, revision, objects)
         SELECT * FROM UNNEST($1::TEXT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[])
         ON CONFLICT (cluster) DO UPDATE
         SET version = EXCLUDED.version, revision = EXCLUDED.revision, objects = EXCLUDED.objects",
    )
    .bind(column(&rows, |row| row.id.as_str()))
    .bind(numbers(&rows, |row| row.version)?)
    .bind(numbers(&rows, |row| row.revision.0)?)
    .bind(column(&rows, |row| row.body.as_deref()))
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_changes(tx: &mut PgConnection, log: &[Change]) -> Result<()> {
    let rows: Vec<&Change> = log.iter().collect();
    sqlx::query(
        "INSERT INTO changes (revision, part, at, actor, kind, id, tenant, operation, before, after,
                              audience, actor_token)
         SELECT * FROM UNNEST($1::BIGINT[], $2::INTEGER[], $3::BIGINT[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::TEXT[],
                              $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[], $12::TEXT[])",
    )
    .bind(numbers(&rows, |row| row.revision.0)?)
    .bind(column(&rows, |row| i32::try_from(row.part).unwrap_or(i32::MAX)))
    .bind(column(&rows, |row| millis(row.at)))
    .bind(column(&rows, |row| row.actor.as_str()))
    .bind(column(&rows, |row| row.kind.as_str()))
    .bind(column(&rows, |row| row.id.as_str()))
    .bind(column(&rows, |row| row.tenant.as_ref().map(fairlead_api::TenantId::as_str)))
    .bind(column(&rows, |row| row.operation.as_str()))
    .bind(column(&rows, |row| row.before.as_ref().map(ToString::to_string)))
    .bind(column(&rows, |row| row.after.as_ref().map(ToString::to_string)))
    .bind(column(&rows, |row| row.audience.as_ref().map(ToString::to_string)))
    .bind(column(&rows, |row| row.actor_token.as_deref()))
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_facts(tx: &mut PgConnection, facts: &[FactVersion]) -> Result<()> {
    let rows: Vec<&FactVersion> = facts.iter().collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO fact_history (cluster, name, dynamic, at, revision, source, observed, value)
         SELECT * FROM UNNEST($1::TEXT[], $2::TEXT[], $3::BOOLEAN[], $4::BIGINT[], $5::BIGINT[], $6::TEXT[], $7::BIGINT[],
                              $8::TEXT[])",
    )
    .bind(column(&rows, |row| row.cluster.as_str()))
    .bind(column(&rows, |row| row.name.as_str()))
    .bind(column(&rows, |row| row.dynamic))
    .bind(column(&rows, |row| row.at))
    .bind(numbers(&rows, |row| row.revision.0)?)
    .bind(column(&rows, |row| row.source.as_str()))
    .bind(column(&rows, |row| row.observed))
    .bind(column(&rows, |row| row.value.as_ref().map(ToString::to_string)))
    .execute(tx)
    .await?;
    Ok(())
}

fn column<'a, R, T>(rows: &[&'a R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(|row| of(row)).collect()
}

fn numbers<R>(rows: &[&R], of: impl Fn(&R) -> u64) -> Result<Vec<i64>> {
    rows.iter().map(|row| int(of(row))).collect()
}
