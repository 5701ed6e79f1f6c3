//! A database left by a hub of the previous version.

use fairlead_api::resources::ClusterState;
use sqlx::{Connection, PgConnection, migrate::Migrator};

use crate::*;

const OLD: [(&str, &str); 3] = [
    (
        "0001_start.sql",
        include_str!("../../../store/migrations/postgres/0001_start.sql"),
    ),
    (
        "0002_keys.sql",
        include_str!("../../../store/migrations/postgres/0002_keys.sql"),
    ),
    (
        "0003_hubs.sql",
        include_str!("../../../store/migrations/postgres/0003_hubs.sql"),
    ),
];

/// A database as created by a hub with these migrations.
async fn database_of(home: &Home, known: &[(&str, &str)]) -> PgConnection {
    let scripts = tempfile::tempdir().unwrap();
    for (name, script) in known {
        std::fs::write(scripts.path().join(name), script).unwrap();
    }
    let mut database = PgConnection::connect(home.url()).await.unwrap();
    let migrations = Migrator::new(scripts.path()).await.unwrap();
    migrations.run(&mut database).await.unwrap();
    database
}

#[tokio::test]
async fn sessions_of_the_previous_version_are_lost_and_report_times_kept() {
    let home = home().await;
    let mut database = database_of(&home, &OLD[..2]).await;
    let body = serde_json::to_string(&cluster("c-1", "t-default")).unwrap();
    sqlx::query("INSERT INTO documents (kind, id, version, revision, body) VALUES ('cluster', 'c-1', 1, 1, $1)")
        .bind(body)
        .execute(&mut database)
        .await
        .unwrap();
    let seen = r#"{"status":{"state":"Connected","since":"2026-11-21T12:00:00Z","lastError":null},"reported":{"agent":4711}}"#;
    sqlx::query("INSERT INTO observed (cluster, body) VALUES ('c-1', $1)")
        .bind(seen)
        .execute(&mut database)
        .await
        .unwrap();
    let store = open(&home).await;
    assert_eq!(
        begin_instead(&store, "https://one.example.com", None).await,
        0
    );
    let seen = store.observed(&cluster_id("c-1")).unwrap();
    assert_eq!(seen.status.state, ClusterState::Lost);
    assert!(seen.status.since > NOW && !seen.reported.is_empty());
    store.set_status(
        &cluster_id("c-1"),
        fairlead_api::resources::ClusterStatus {
            state: ClusterState::Connected,
            since: SOON,
            last_error: None,
            last_seen: None,
            last_good_probe: None,
            hub: None,
        },
    );
    store.close().await;
    let rows = home.count("SELECT count(*) FROM observed").await;
    assert_eq!(rows, 1, "the older row is in the new one");
}

#[tokio::test]
async fn log_lines_without_audience_stay_readable() {
    let home = home().await;
    let mut database = database_of(&home, &OLD).await;
    sqlx::raw_sql(history::LINE_WITHOUT_AUDIENCE)
        .execute(&mut database)
        .await
        .unwrap();
    database.close().await.unwrap();
    history::reads_past_a_line_without_audience(&open(&home).await).await;
}
