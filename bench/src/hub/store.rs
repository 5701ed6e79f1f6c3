//! Stores of a measured hub.

use fairlead_e2e::PostgresServer;

/// Settings of a production database.
const POSTGRES: [&str; 3] = ["fsync=on", "shared_buffers=1GB", "max_wal_size=4GB"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
}

/// A store, which ends with its server.
pub(crate) struct HubStore {
    pub(crate) name: &'static str,
    server: Option<PostgresServer>,
}

impl StoreKind {
    /// Starts the server of the store; `None`, with a message, where it cannot be had.
    pub(crate) fn start(self) -> Option<HubStore> {
        let (name, server) = match self {
            StoreKind::Sqlite => ("sqlite", None),
            StoreKind::Postgres => match PostgresServer::start_with(&POSTGRES) {
                Ok(server) => ("postgres", Some(server)),
                Err(error) => {
                    eprintln!("SKIPPED: PostgreSQL: {error:#}");
                    return None;
                }
            },
        };
        Some(HubStore { name, server })
    }
}

impl HubStore {
    /// `postgres://…`; `None` is the file of the hub.
    pub(crate) fn url(&self) -> Option<String> {
        self.server.as_ref().map(PostgresServer::url)
    }
}
