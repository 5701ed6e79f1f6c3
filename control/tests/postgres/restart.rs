//! A server that stops and comes back.

use std::{collections::HashSet, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_store::Revision;
use tokio::task::JoinSet;

use fairlead_testkit::postgres::PostgresServer;

use crate::{rig::home_in, *};

/// Resumes the server with a paused clock: deadlines do not depend on its start-up time.
async fn resumed(mut server: PostgresServer) -> PostgresServer {
    let resume = move || {
        server.resume().unwrap();
        server
    };
    // A paused clock does not advance during blocking work.
    let resuming = tokio::task::spawn_blocking(resume);
    tokio::time::pause();
    let server = resuming.await.unwrap();
    tokio::time::resume();
    server
}

#[tokio::test]
async fn writes_wait_for_a_server_restart_within_the_budget() {
    let mut server = PostgresServer::start().unwrap();
    let home = home_in(server.folder()).await;
    let store = open(&home).await;
    put_tenant(&store, tenant("t-before")).await.unwrap();

    server.stop();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { put_tenant(&store, tenant("t-meanwhile")).await })
    };
    assert!(
        store.view().tenant(&tenant_id("t-before")).is_some(),
        "reads go on"
    );
    let mut server = resumed(server).await;
    waiting.await.unwrap().unwrap();

    server.stop();
    let refused = put_tenant(&store, tenant("t-late")).await.unwrap_err();
    assert_eq!(Failure::from(refused).code, Code::StoreAway);
    let catalog = store.catalog(&cluster_id("c-demo")).await.unwrap_err();
    assert_eq!(Failure::from(catalog).code, Code::StoreAway);
    assert!(store.view().tenant(&tenant_id("t-late")).is_none());

    server.resume().unwrap();
    put_tenant(&store, tenant("t-after")).await.unwrap();
    let revision = store.view().revision().0;
    assert_eq!(revision, 4, "a rejected change leaves no trace");
    tokio::time::timeout(Duration::from_secs(60), store.close())
        .await
        .unwrap();
}

/// Size of the store's connection pool.
const POOL_SIZE: usize = 8;
const WAITING_CALLERS: usize = 400;

/// Connections of the server's log since its start.
#[derive(Debug, Default)]
struct PgConnections {
    /// Includes connections refused during start-up.
    came: usize,
    let_in: usize,
    at_once: usize,
}

impl PgConnections {
    fn of(server: &PostgresServer) -> Self {
        let log = std::fs::read_to_string(server.folder().join("postgres.log")).unwrap();
        let (mut open, mut told) = (HashSet::new(), PgConnections::default());
        for line in log.lines() {
            let process = line.split(['[', ']']).nth(1);
            if line.contains("connection received:") {
                told.came += 1;
                open.insert(process);
            } else if line.contains("connection authorized:") {
                told.let_in += 1;
            } else if line.contains("disconnection:") || line.contains("FATAL:") {
                open.remove(&process);
            }
            told.at_once = told.at_once.max(open.len());
        }
        told
    }
}

#[tokio::test]
async fn reconnects_are_bounded_by_the_pool_size() {
    let mut server =
        PostgresServer::start_with(&["log_connections=on", "log_disconnections=on"]).unwrap();
    let home = home_in(server.folder()).await;
    let store = open(&home).await;
    let made = cluster("c-demo", "t-default");
    put_cluster(&store, made).await.unwrap();
    server.stop();
    let waiting: JoinSet<()> = (0..WAITING_CALLERS)
        .map(|n| {
            let store = store.clone();
            async move {
                match n % 4 {
                    0 => put_tenant(&store, tenant(&format!("t-{n}"))).await.unwrap(),
                    1 => drop(store.changes(Revision(1), 10).await.unwrap()),
                    _ => drop(store.catalog(&cluster_id("c-demo")).await.unwrap()),
                }
            }
        })
        .collect();
    let server = resumed(server).await;
    waiting.join_all().await;
    let told = PgConnections::of(&server);
    assert!((1..=POOL_SIZE).contains(&told.at_once), "{told:?}");
    // A connection may break once more.
    assert!(told.let_in <= 2 * POOL_SIZE, "{told:?}");
    assert!(told.came < WAITING_CALLERS, "{told:?}");
    store.close().await;
}
