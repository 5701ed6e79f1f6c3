//! Operations on a store on a full disk: fill it, observe the failure, read.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure, catalog::Catalog};
use fairlead_store::{Actor, Draft, Revision, Store, StoreError, model::Tenant};
use time::OffsetDateTime;

/// More writes than any of these disks can take.
const MAX_WRITES: usize = 10_000;

/// A file that occupies all space of a disk except a remainder.
pub(crate) struct Ballast(PathBuf);

impl Ballast {
    pub(crate) fn leaving(disk: &Path, bytes: u64) -> Self {
        let path = disk.join("ballast");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[1; 1 << 16]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(bytes)).unwrap();
        Ballast(path)
    }

    pub(crate) fn throw_away(self) {
        fs::remove_file(self.0).unwrap();
    }
}

/// Number of tenants besides the first one.
pub(crate) fn there(store: &Store) -> usize {
    store.view().tenants().count() - 1
}

/// Writes until three writes failed with a full disk; returns the number of tenants.
pub(crate) async fn fill(store: &Store) -> usize {
    let (before, mut refused) = (there(store), 0);
    let mut kept = before;
    while refused < 3 {
        match put(store, kept).await {
            Ok(()) => kept += 1,
            Err(error) => {
                let code = Failure::from(error.clone()).code;
                assert_eq!(code, Code::StoreFull, "{error:?}");
                refused += 1;
            }
        }
        assert!(kept < MAX_WRITES, "the disk has no end");
    }
    assert!(kept > before + 5);
    kept
}

/// Writes until the first refusal; returns its code.
pub(crate) async fn fill_until_refused(store: &Store) -> Code {
    for n in there(store)..MAX_WRITES {
        if let Err(error) = put(store, n).await {
            return Failure::from(error).code;
        }
    }
    panic!("the disk has no end");
}

/// Reads from memory and from the database.
pub(crate) async fn reads_go_on(store: &Store, kept: usize) {
    assert_eq!(there(store), kept);
    let none = store.catalog(&"c-none".parse().unwrap()).await.unwrap();
    assert_eq!(none, Catalog::default());
    let log = store.changes(Revision(1), 10_000).await;
    assert_eq!(log.unwrap().changes.len(), kept);
}

pub(crate) async fn put(store: &Store, n: usize) -> Result<(), StoreError> {
    let id = format!("t-{n}").parse().unwrap();
    let mut tenant = Tenant::new(id, OffsetDateTime::UNIX_EPOCH);
    (tenant.annotations).insert("filler".to_owned(), filler(n as u64));
    let make = move |draft: &mut Draft| draft.put_tenant(tenant.clone());
    store.change(Actor::Hub, make).await.map(drop)
}

/// Incompressible text.
fn filler(seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        let step = state.wrapping_mul(6_364_136_223_846_793_005);
        state = step.wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + u8::try_from(state >> 59).unwrap())
    };
    (0..4096).map(|_| next()).collect()
}
