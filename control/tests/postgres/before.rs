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
async fn what_was_connected_to_a_hub_of_the_version_before_is_lost_and_its_facts_reports_are_kept()
{
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
async fn a_log_that_does_not_say_who_could_see_it_is_read_on_and_goes_on() {
    let home = home().await;
    let mut database = database_of(&home, &OLD).await;
    sqlx::raw_sql(history::LINE_OF_THE_VERSION_BEFORE)
        .execute(&mut database)
        .await
        .unwrap();
    database.close().await.unwrap();
    history::goes_on_behind_a_line_of_the_version_before(&open(&home).await).await;
}
