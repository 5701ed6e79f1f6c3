//! A disk without room: a limit to the size of files does for it what a quota does.

use std::process::Command;

use fairlead_store::{Clock, Place, Store};

use crate::room;

/// In blocks of 512 or 1,024 bytes, as the shell has it.
const LIMIT: u32 = 1024;

pub(crate) fn a_full_disk_is_told_and_overcome() {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("sqlite:{}", dir.path().join("fairlead.db").display());
    // Who goes beyond the limit is killed, unless the signal is ignored.
    let filled = Command::new("bash")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f \"$1\"; exec \"$2\" fill \"$3\"",
            "sh",
        ])
        .arg(LIMIT.to_string())
        .arg(std::env::current_exe().unwrap())
        .arg(&place)
        .status()
        .unwrap();
    assert!(filled.success());
    goes_on(&place);
    println!("a full disk was told and overcome");
}

/// Runs under the limit: fills the disk, and reads what is there.
#[tokio::main]
pub(crate) async fn fill(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let kept = room::fill(&store).await;
    room::reads_go_on(&store, kept).await;
    store.close().await;
}

/// Without the limit: all that was answered is there, and what comes next works.
#[tokio::main]
async fn goes_on(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    room::put(&store, room::there(&store)).await.unwrap();
    store.close().await;
}
