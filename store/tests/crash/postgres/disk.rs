//! A PostgreSQL with a full disk: for its tables, which it reports; for its write-ahead log, which
//! ends it. Disks of some megabytes are mounted in a private mount namespace, which requires root.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use fairlead_api::{Code, Failure};
use fairlead_store::{Clock, Place, Store};

use fairlead_testkit::{
    mounts::{restart_isolated, run},
    postgres::PostgresServer,
};

use crate::room::{self, Ballast};

/// A new database takes half of it.
const TABLES: &str = "size=80m,mode=0700";
/// Three segments of the write-ahead log.
const LOG: &str = "size=48m,mode=0700";
/// Space left for the writes of the test, in bytes.
const LEFT_BYTES: u64 = 4 << 20;

pub(crate) fn without_room_it_is_told_and_overcome() {
    // Socket paths are limited to about 100 bytes.
    let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp");
    restart_isolated("postgres-disk", folder.unwrap().path());
}

/// Runs inside the private mount namespace.
pub(crate) fn within(folder: &Path) {
    let (tables, log) = (folder.join("data"), folder.join("log"));
    for (disk, options) in [(&tables, TABLES), (&log, LOG)] {
        fs::create_dir(disk).unwrap();
        if let Err(why) = run("mount", &["-t", "tmpfs", "-o", options, "none"], disk) {
            return println!("SKIPPED: a small disk for PostgreSQL: {why}");
        }
    }
    let mut server = PostgresServer::start_in(folder, &[]).unwrap();
    server.stop();
    let (inside, outside) = (tables.join("pg_wal"), log.join("pg_wal"));
    let moved = Command::new("mv").args([&inside, &outside]).status();
    assert!(moved.unwrap().success());
    symlink(&outside, &inside).unwrap();
    server.resume().unwrap();
    let place = format!(
        "postgres:///postgres?host={}&user=fairlead",
        folder.display()
    );
    let place: Place = place.parse().unwrap();
    no_room_for_tables(&place, &tables);
    println!("PostgreSQL without room for its tables was told, and overcome when there was room");
    no_room_for_the_log(&place, &log, &mut server);
    println!("PostgreSQL that ended without room for its log was told, and nothing is lost");
}

#[tokio::main]
async fn no_room_for_tables(place: &Place, disk: &Path) {
    let store = Store::open(place, Clock::system()).await.unwrap();
    let ballast = Ballast::leaving(disk, LEFT_BYTES);
    let kept = room::fill(&store).await;
    room::reads_go_on(&store, kept).await;
    ballast.throw_away();
    room::put(&store, kept).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
}

#[tokio::main]
async fn no_room_for_the_log(place: &Place, disk: &Path, server: &mut PostgresServer) {
    let store = Store::open(place, Clock::system()).await.unwrap();
    let ballast = Ballast::leaving(disk, 0);
    // Before it ends, the server reports the full disk, but not the result of this write.
    assert_eq!(room::fill_until_refused(&store).await, Code::StoreAway);
    let kept = room::there(&store);
    let none = store.catalog(&"c-none".parse().unwrap()).await;
    assert_eq!(Failure::from(none.unwrap_err()).code, Code::StoreAway);
    server.stop();
    ballast.throw_away();
    server.resume().unwrap();
    room::put(&store, kept).await.unwrap();
    room::put(&store, kept + 1).await.unwrap();
    room::reads_go_on(&store, kept + 2).await;
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
}
