//! Commits a batch: on a dedicated connection, in one round trip.

use std::time::Duration;

use sqlx::{
    ConnectOptions, Connection, SqliteConnection, error::ErrorKind, sqlite::SqliteConnectOptions,
};
use tokio::{sync::Mutex, time::timeout};

use super::script::SqlScript;
use crate::{
    backend::{ChangeBatch, Committed, DocumentRow},
    error::{Result, StoreError},
    history::{Change, FactVersion},
    millis::millis,
    queries,
    revision::Revision,
    rows::int,
};

/// Capacity of the prepared statement cache.
const STATEMENT_CACHE_CAPACITY: usize = 16;

/// Owner of the commit connection. A pool would ping it before and after each use.
pub(super) struct Committer {
    options: SqliteConnectOptions,
    /// Deadline for opening the file.
    open_deadline: Duration,
    /// `None` before the first batch and after a rejected one.
    connection: Mutex<Option<SqliteConnection>>,
}

impl Committer {
    pub(super) fn new(options: SqliteConnectOptions, open_deadline: Duration) -> Self {
        Committer {
            options: options.statement_cache_capacity(STATEMENT_CACHE_CAPACITY),
            open_deadline,
            connection: Mutex::new(None),
        }
    }

    pub(super) async fn commit(&self, batch: &ChangeBatch, on: Revision) -> Result<Committed> {
        let connection = self.connection.lock().await.take();
        let mut connection = match connection {
            Some(connection) => connection,
            None => (timeout(self.open_deadline, self.options.connect()).await)
                .unwrap_or(Err(sqlx::Error::PoolTimedOut))?,
        };
        match write(&mut connection, batch, on).await {
            Ok(()) => {
                *self.connection.lock().await = Some(connection);
                Ok(Committed::Done)
            }
            Err(error) => {
                // Closing also ends the transaction; its error adds nothing.
                let _ = connection.close().await;
                match is_behind(&error) {
                    true => Ok(Committed::Behind),
                    false => Err(error),
                }
            }
        }
    }

    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            // Committed data is on disk even if closing fails.
            let _ = connection.close().await;
        }
    }
}

/// Only the revision row has a check constraint that a batch can violate.
fn is_behind(error: &StoreError) -> bool {
    let StoreError::Failed(error) = error else {
        return false;
    };
    let error = error.as_database_error();
    error.is_some_and(|error| error.kind() == ErrorKind::CheckViolation)
}

async fn write(connection: &mut SqliteConnection, batch: &ChangeBatch, on: Revision) -> Result<()> {
    let (from, to) = (int(on.0)?, int(batch.revision.0)?);
    let mut script = SqlScript::begin(connection);
    script.statement(|text| {
        // The constraint requires `one` = 1: with another revision the whole batch fails.
        text.push("UPDATE revision SET one = revision = ")
            .push_bind(from)
            .push(", revision = ")
            .push_bind(to);
    });
    let gone: Vec<&String> = batch.gone.iter().collect();
    for (before, after) in [
        ("DELETE FROM catalogs WHERE cluster IN (VALUES", ")"),
        ("DELETE FROM observed WHERE cluster IN (VALUES", ")"),
        ("DELETE FROM deployments WHERE cluster IN (VALUES", ")"),
        (
            "DELETE FROM run_logs WHERE run IN (SELECT id FROM runs WHERE cluster IN (VALUES",
            "))",
        ),
        ("DELETE FROM runs WHERE cluster IN (VALUES", ")"),
    ] {
        let bind = script.add(before, &gone, after, |values, cluster| {
            values.push_bind(cluster.as_str());
            Ok(())
        });
        bind.await?;
    }
    documents(&mut script, batch).await?;
    catalogs(&mut script, batch).await?;
    changes(&mut script, &batch.log).await?;
    facts(&mut script, &batch.facts).await?;
    script.commit().await
}

async fn documents(script: &mut SqlScript<'_>, batch: &ChangeBatch) -> Result<()> {
    let (kept, gone): (Vec<&DocumentRow>, Vec<&DocumentRow>) =
        batch.documents.values().partition(|row| row.body.is_some());
    let deleted = "DELETE FROM documents WHERE (kind, id) IN (VALUES";
    let bind = script.add(deleted, &gone, ")", |values, row| {
        values.push_bind(row.kind.as_str()).push_bind(&row.id);
        Ok(())
    });
    bind.await?;
    let put = "INSERT INTO documents (kind, id, version, revision, body) VALUES";
    let on_conflict = " ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, revision = excluded.revision, body = excluded.body";
    let bind = script.add(put, &kept, on_conflict, |values, row| {
        values
            .push_bind(row.kind.as_str())
            .push_bind(&row.id)
            .push_bind(int(row.version)?)
            .push_bind(int(row.revision.0)?)
            .push_bind(&row.body);
        Ok(())
    });
    bind.await
}

async fn catalogs(script: &mut SqlScript<'_>, batch: &ChangeBatch) -> Result<()> {
    let rows: Vec<&DocumentRow> = batch.catalogs.values().collect();
    let put = "INSERT INTO catalogs (cluster, version, revision, objects) VALUES";
    let on_conflict = " ON CONFLICT (cluster) DO UPDATE SET version = excluded.version, revision = excluded.revision, objects = excluded.objects";
    let bind = script.add(put, &rows, on_conflict, |values, row| {
        values
            .push_bind(&row.id)
            .push_bind(int(row.version)?)
            .push_bind(int(row.revision.0)?)
            .push_bind(&row.body);
        Ok(())
    });
    bind.await
}

async fn changes(script: &mut SqlScript<'_>, log: &[Change]) -> Result<()> {
    let put = "INSERT INTO changes (revision, part, at, actor, kind, id, tenant, operation, before, after, audience, actor_token) VALUES";
    let bind = script.add(put, log, "", |values, row| {
        values
            .push_bind(int(row.revision.0)?)
            .push_bind(row.part)
            .push_bind(millis(row.at))
            .push_bind(&row.actor)
            .push_bind(row.kind.as_str())
            .push_bind(&row.id)
            .push_bind(row.tenant.as_ref().map(fairlead_api::TenantId::as_str))
            .push_bind(row.operation.as_str())
            .push_bind(row.before.as_ref().map(ToString::to_string))
            .push_bind(row.after.as_ref().map(ToString::to_string))
            .push_bind(row.audience.as_ref().map(ToString::to_string))
            .push_bind(&row.actor_token);
        Ok(())
    });
    bind.await
}

async fn facts(script: &mut SqlScript<'_>, versions: &[FactVersion]) -> Result<()> {
    let put = "INSERT INTO fact_history (cluster, name, dynamic, at, revision, source, observed, value) VALUES";
    let bind = script.add(put, versions, "", |values, row| {
        values
            .push_bind(row.cluster.as_str())
            .push_bind(&row.name)
            .push_bind(row.dynamic)
            .push_bind(row.at)
            .push_bind(int(row.revision.0)?)
            .push_bind(row.source.as_str())
            .push_bind(row.observed)
            .push_bind(row.value.as_ref().map(ToString::to_string));
        Ok(())
    });
    bind.await
}

pub(super) async fn observe(
    connection: &mut SqliteConnection,
    rows: &[(String, String)],
    folded: &[(String, String)],
) -> Result<()> {
    let mut script = SqlScript::begin(connection);
    let put = "INSERT INTO observed (cluster, hub, body) SELECT column1, '', column2 FROM (VALUES";
    let there = ") WHERE EXISTS (SELECT 1 FROM documents WHERE kind = 'cluster' AND id = column1)
         ON CONFLICT (cluster, hub) DO UPDATE SET body = excluded.body";
    let bind = script.add(put, rows, there, |values, (cluster, body)| {
        values.push_bind(cluster).push_bind(body);
        Ok(())
    });
    bind.await?;
    let gone = "DELETE FROM observed WHERE (cluster, hub) IN (VALUES";
    let bind = script.add(gone, folded, ")", |values, (cluster, hub)| {
        values.push_bind(cluster).push_bind(hub);
        Ok(())
    });
    bind.await?;
    script.commit().await
}

pub(super) async fn record_token_uses(
    connection: &mut SqliteConnection,
    uses: &[(String, i64)],
) -> Result<()> {
    let mut script = SqlScript::begin(connection);
    let put = "INSERT INTO token_uses (token, at) SELECT column1, column2 FROM (VALUES";
    let newer = ") WHERE EXISTS (SELECT 1 FROM documents WHERE kind = 'token' AND id = column1)
         ON CONFLICT (token) DO UPDATE SET at = excluded.at WHERE token_uses.at < excluded.at";
    let bind = script.add(put, uses, newer, |values, (token, at)| {
        values.push_bind(token).push_bind(*at);
        Ok(())
    });
    bind.await?;
    script.statement(|text| {
        text.push(queries::FORGET_TOKEN_USES);
    });
    script.commit().await
}
