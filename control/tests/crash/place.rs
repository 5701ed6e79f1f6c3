//! Where a store is, new and empty each time.

use tempfile::TempDir;

pub(crate) trait Ground {
    const NAME: &'static str;
    fn new() -> Self;
    fn place(&self) -> String;
}

pub(crate) struct Sqlite(TempDir);

impl Ground for Sqlite {
    const NAME: &'static str = "SQLite";

    fn new() -> Self {
        Sqlite(tempfile::tempdir().unwrap())
    }

    fn place(&self) -> String {
        format!("sqlite:{}", self.0.path().join("fairlead.db").display())
    }
}
