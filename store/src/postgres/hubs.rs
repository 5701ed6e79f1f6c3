//! Messages between hubs besides changes: observations of clusters, and heartbeats. Not synced:
//! both are sent again.

use sqlx::{PgConnection, PgPool};

use crate::{
    backend::{Heartbeat, ObservedRow, OwnHub},
    error::Result,
    heartbeats::HubRow,
    parts::PartRow,
    queries,
};

/// Time an ended hub without remaining observations stays listed, in milliseconds.
const ENDED_HUB_RETENTION_MS: i64 = 3_600_000;

/// Rows written after `since` in commit order, and all rows of the clusters `again`.
pub(super) async fn seen(pool: &PgPool, since: i64, again: &[String]) -> Result<Vec<ObservedRow>> {
    let read = sqlx::query_as(
        "SELECT cluster, hub, seq, body FROM observed WHERE seq > $1 OR cluster = ANY($2) ORDER BY seq",
    );
    Ok(read.bind(since).bind(again).fetch_all(pool).await?)
}

/// Writes this hub's observations of existing clusters.
pub(super) async fn observe(
    pool: &PgPool,
    hub: &str,
    rows: &[(String, String)],
    folded: &[(String, String)],
) -> Result<()> {
    let (clusters, bodies) = columns(rows);
    let mut tx = pool.begin().await?;
    lightly(&mut tx).await?;
    // The row lock is held until commit, so sequence numbers become visible in order.
    let seq: i64 =
        sqlx::query_scalar("UPDATE observed_until SET seq = seq + 1 WHERE one = 1 RETURNING seq")
            .fetch_one(&mut *tx)
            .await?;
    sqlx::query(
        "INSERT INTO observed (cluster, hub, seq, body)
         SELECT seen.cluster, $1, $2, seen.body FROM UNNEST($3::TEXT[], $4::TEXT[]) AS seen (cluster, body)
         JOIN documents ON documents.kind = 'cluster' AND documents.id = seen.cluster
         ON CONFLICT (cluster, hub) DO UPDATE SET seq = EXCLUDED.seq, body = EXCLUDED.body",
    )
    .bind(hub)
    .bind(seq)
    .bind(clusters)
    .bind(bodies)
    .execute(&mut *tx)
    .await?;
    if !folded.is_empty() {
        let (clusters, hubs) = columns(folded);
        sqlx::query(
            "DELETE FROM observed USING UNNEST($1::TEXT[], $2::TEXT[]) AS folded (cluster, hub)
             WHERE observed.cluster = folded.cluster AND observed.hub = folded.hub",
        )
        .bind(clusters)
        .bind(hubs)
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Writes the last uses of API tokens; several hubs may report the same token.
pub(super) async fn record_token_uses(pool: &PgPool, uses: &[(String, i64)]) -> Result<()> {
    let (tokens, times): (Vec<&str>, Vec<i64>) =
        uses.iter().map(|(token, at)| (token.as_str(), *at)).unzip();
    let mut tx = pool.begin().await?;
    lightly(&mut tx).await?;
    // Ordered, so that two hubs never wait for each other.
    sqlx::query(
        "INSERT INTO token_uses (token, at)
         SELECT used.token, used.at FROM UNNEST($1::TEXT[], $2::BIGINT[]) AS used (token, at)
         JOIN documents ON documents.kind = 'token' AND documents.id = used.token
         ORDER BY used.token
         ON CONFLICT (token) DO UPDATE SET at = EXCLUDED.at WHERE token_uses.at < EXCLUDED.at",
    )
    .bind(tokens)
    .bind(times)
    .execute(&mut *tx)
    .await?;
    sqlx::query(queries::FORGET_TOKEN_USES)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}

pub(super) async fn all(pool: &PgPool) -> Result<Vec<HubRow>> {
    let read: Vec<(String, String, String, String, i64, bool, i64)> = sqlx::query_as(
        "SELECT id, url, address, agents, beat, ended, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) - beat FROM hubs",
    )
    .fetch_all(pool)
    .await?;
    let hubs = read.into_iter();
    let hubs = hubs.map(|(id, url, address, agents, beat, ended, age)| HubRow {
        id,
        url,
        address,
        agents,
        beat,
        age,
        ended,
    });
    Ok(hubs.collect())
}

pub(super) async fn beat(pool: &PgPool, hub: &OwnHub<'_>, beat: Heartbeat<'_>) -> Result<()> {
    let mut tx = pool.begin().await?;
    lightly(&mut tx).await?;
    if let Heartbeat::Begin { instead_of } = beat {
        sqlx::query("UPDATE hubs SET ended = TRUE WHERE id = $1")
            .bind(instead_of)
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "DELETE FROM hubs WHERE beat < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) - $1
             AND NOT EXISTS (SELECT 1 FROM observed WHERE observed.hub = hubs.id)",
        )
        .bind(ENDED_HUB_RETENTION_MS)
        .execute(&mut *tx)
        .await?;
    }
    sqlx::query(
        "INSERT INTO hubs (id, url, beat, ended, address, agents)
         VALUES ($1, $2, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT), $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET url = EXCLUDED.url, beat = EXCLUDED.beat, ended = EXCLUDED.ended,
           address = EXCLUDED.address, agents = EXCLUDED.agents",
    )
    .bind(hub.id)
    .bind(hub.url.to_string())
    .bind(matches!(beat, Heartbeat::End))
    .bind(hub.address.to_string())
    .bind(hub.agents.column())
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(())
}

pub(super) async fn call_for_parts(pool: &PgPool) -> Result<i64> {
    let call = sqlx::query_scalar(
        "INSERT INTO part_calls (one, seq) VALUES (1, 1)
         ON CONFLICT (one) DO UPDATE SET seq = part_calls.seq + 1 RETURNING seq",
    );
    Ok(call.fetch_one(pool).await?)
}

pub(super) async fn part_call(pool: &PgPool) -> Result<i64> {
    let read = sqlx::query_scalar("SELECT seq FROM part_calls");
    Ok(read.fetch_optional(pool).await?.unwrap_or_default())
}

pub(super) async fn put_part(pool: &PgPool, hub: &str, seq: i64, body: &str) -> Result<()> {
    let mut tx = pool.begin().await?;
    lightly(&mut tx).await?;
    // Parts of hubs that have ended.
    sqlx::query("DELETE FROM parts WHERE NOT EXISTS (SELECT 1 FROM hubs WHERE hubs.id = parts.hub AND NOT hubs.ended)")
        .execute(&mut *tx)
        .await?;
    sqlx::query(
        "INSERT INTO parts (hub, seq, body) VALUES ($1, $2, $3)
         ON CONFLICT (hub) DO UPDATE SET seq = EXCLUDED.seq, body = EXCLUDED.body",
    )
    .bind(hub)
    .bind(seq)
    .bind(body)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(())
}

pub(super) async fn parts(pool: &PgPool, seq: i64) -> Result<Vec<PartRow>> {
    let read = sqlx::query_as("SELECT hub, body FROM parts WHERE seq >= $1");
    Ok(read.bind(seq).fetch_all(pool).await?)
}

async fn lightly(tx: &mut PgConnection) -> Result<()> {
    sqlx::query("SET LOCAL synchronous_commit = off")
        .execute(tx)
        .await?;
    Ok(())
}

fn columns(rows: &[(String, String)]) -> (Vec<&str>, Vec<&str>) {
    let rows = rows.iter();
    rows.map(|(one, other)| (one.as_str(), other.as_str()))
        .unzip()
}
