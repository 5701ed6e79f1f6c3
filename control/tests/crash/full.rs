//! A disk without room: a limit to the size of files does for it what a quota does.

use std::process::Command;

use fairlead_api::{Code, Failure, catalog::Catalog};
use fairlead_control::{
    Clock,
    model::Tenant,
    store::{Actor, Draft, Place, Store, StoreError},
};
use time::OffsetDateTime;

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
    let (mut kept, mut refused) = (0, 0);
    while refused < 3 {
        match put(&store, kept).await {
            Ok(()) => kept += 1,
            Err(error) => {
                assert_eq!(
                    Failure::from(error.clone()).code,
                    Code::StoreFull,
                    "{error:?}"
                );
                refused += 1;
            }
        }
        assert!(kept < 10_000, "the limit is not there");
    }
    assert!(kept > 5);
    // Reads go on, from memory and from the file.
    assert_eq!(store.view().tenants().count(), kept + 1);
    let none = store.catalog(&"c-none".parse().unwrap()).await.unwrap();
    assert_eq!(none, Catalog::default());
    let log = store
        .changes(fairlead_control::store::Revision(1), 10_000)
        .await;
    assert_eq!(log.unwrap().changes.len(), kept);
    store.close().await;
}

/// Without the limit: all that was answered is there, and what comes next works.
#[tokio::main]
async fn goes_on(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let kept = store.view().tenants().count() - 1;
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    put(&store, kept).await.unwrap();
    store.close().await;
}

async fn put(store: &Store, n: usize) -> Result<(), StoreError> {
    let id = format!("t-{n}").parse().unwrap();
    let mut tenant = Tenant::new(id, OffsetDateTime::UNIX_EPOCH);
    tenant
        .annotations
        .insert("filler".to_owned(), "x".repeat(4096));
    let make = move |draft: &mut Draft| draft.put_tenant(tenant.clone());
    store.change(Actor::Hub, make).await.map(drop)
}
