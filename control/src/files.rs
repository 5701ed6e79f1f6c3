//! Names of the files in the data directory.

/// SQLite file of the store.
pub(crate) const STORE_FILE: &str = "fairlead.db";
/// File that exists from the begin of a restore to the begin of its epoch.
pub(crate) const RESTORING: &str = "restoring";
/// Files that a hub needs besides its store.
pub(crate) const KEYS: [&str; 3] = ["ca.pem", "ca.key", "bootstrap.key"];
/// [`KEYS`], and the files of the next CA while it is rotated.
pub(crate) const ALL_KEYS: [&str; 5] = [
    "ca.pem",
    "ca.key",
    "bootstrap.key",
    "ca-next.key",
    "ca-next.pem",
];
