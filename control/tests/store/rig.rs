//! A file per test.

use fairlead_store::{Clock, Place, Store};
use tempfile::TempDir;

pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn place(&self) -> Place {
        Place::File(self.path())
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.0.path().join("fairlead.db")
    }
}

pub(crate) async fn home() -> Home {
    Home(tempfile::tempdir().unwrap())
}

pub(crate) async fn open_at(home: &Home, clock: Clock) -> Store {
    let place = Place::File(home.path());
    Store::open(&place, clock).await.unwrap()
}
