//! Names of the files in the data directory.

/// SQLite file of the store.
pub(crate) const STORE_FILE: &str = "fairlead.db";
/// Files that a hub needs besides its store.
pub(crate) const KEYS: [&str; 3] = ["ca.pem", "ca.key", "bootstrap.key"];
