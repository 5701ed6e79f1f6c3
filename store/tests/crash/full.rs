//! A disk without free space, simulated by a limit on file sizes.

use std::process::Command;

use fairlead_store::{Clock, Place, Store};

use crate::room;

/// File size limit in the shell's blocks of 512 or 1,024 bytes.
const LIMIT_BLOCKS: u32 = 1024;

pub(crate) fn a_full_disk_is_told_and_overcome() {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("sqlite:{}", dir.path().join("fairlead.db").display());
    // Exceeding the limit kills the process unless the signal is ignored.
    let filled = Command::new("bash")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f \"$1\"; exec \"$2\" fill \"$3\"",
            "sh",
        ])
        .arg(LIMIT_BLOCKS.to_string())
        .arg(std::env::current_exe().unwrap())
        .arg(&place)
        .status()
        .unwrap();
    assert!(filled.success());
    goes_on(&place);
    println!("a full disk was told and overcome");
}

/// Fills the disk under the limit, and reads the store.
#[tokio::main]
pub(crate) async fn fill(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let kept = room::fill(&store).await;
    room::reads_go_on(&store, kept).await;
    store.close().await;
}

/// Without the limit, all acknowledged writes are present and new ones succeed.
#[tokio::main]
async fn goes_on(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    room::put(&store, room::there(&store)).await.unwrap();
    store.close().await;
}
