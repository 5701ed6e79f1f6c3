//! A file that another program holds, a damaged one, one of a newer version.

use fairlead_api::{Code, Failure};
use fairlead_control::store::{Store, StoreError};
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::*;

async fn other_program(dir: &TempDir) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(dir.path().join("fairlead.db"));
    SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test]
async fn a_file_that_another_program_holds_is_said_to_be_so_and_nothing_changes() {
    let (store, dir) = store().await;
    let mut other = other_program(&dir).await;
    sqlx::query("BEGIN EXCLUSIVE")
        .execute(&mut other)
        .await
        .unwrap();
    let failure: Failure = store
        .create_tenant(tenant("t-acme"))
        .await
        .unwrap_err()
        .into();
    assert_eq!(failure.code, Code::Store);
    assert_eq!(
        failure.cause,
        Code::Store.title(),
        "what SQLite says is not for callers"
    );
    let failed = store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await;
    assert!(matches!(failed, Err(StoreError::Sqlite(_))));
    assert!(store.home(&cluster_id("c-demo")).is_none());
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    store.create_tenant(tenant("t-acme")).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_or_one_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fairlead.db");
    std::fs::write(
        &path,
        "this is no database, whatever its name says. ".repeat(100),
    )
    .unwrap();
    let failure = Store::open(&path).await.map(drop).unwrap_err();
    assert_eq!(failure.code, Code::DataDir);

    let (store, dir) = store().await;
    store.close().await;
    let mut other = other_program(&dir).await;
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'newer', 1, x'00', 0)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    let path = dir.path().join("fairlead.db");
    let failure = Store::open(&path).await.map(drop).unwrap_err();
    assert_eq!(failure.code, Code::DataDir);
    assert!(failure.cause.contains("9999"), "{failure}");
}

/// What a hub of the version before has written goes on to be good.
#[tokio::test]
async fn a_file_of_the_version_before_is_brought_up_to_date() {
    let (store, dir) = store().await;
    store
        .create_cluster(new_cluster("c-demo", "t-default"))
        .await
        .unwrap();
    assert!(!spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap());
    store.close().await;
    let mut other = other_program(&dir).await;
    for undo in [
        "ALTER TABLE clusters DROP COLUMN uid",
        "ALTER TABLE clusters DROP COLUMN clone_uid",
        "ALTER TABLE clusters DROP COLUMN clone_from",
        "ALTER TABLE clusters DROP COLUMN clone_seen",
        "DELETE FROM _sqlx_migrations WHERE version = 2",
    ] {
        sqlx::query(undo).execute(&mut other).await.unwrap();
    }
    other.close().await.unwrap();
    let store = open(&dir).await;
    let cluster = store.cluster(&cluster_id("c-demo"), None).await.unwrap();
    let cluster = cluster.unwrap();
    assert_eq!((cluster.uid, cluster.clone), (None, None));
    let home = store.home(&cluster_id("c-demo")).unwrap();
    assert_eq!((home.key, home.uid), (Some([1; 32]), None));
}
