//! Versions of the tables, and which of them this program works with.

/// Version of this program, common to the whole workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// SchemaMismatch incompatible with this version.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaMismatch {
    #[error("it was written by {}: its tables have version {there}, and Fairlead {VERSION} knows version {known}", program(.by.as_deref()))]
    Newer {
        there: i64,
        known: i64,
        by: Option<String>,
    },
    #[error("its tables have version {there}, and Fairlead {VERSION} works with version {known}")]
    Older { there: i64, known: i64 },
    #[error("it contains no tables of Fairlead")]
    Missing,
}

fn program(version: Option<&str>) -> String {
    version.map_or_else(
        || "a newer Fairlead".to_owned(),
        |version| format!("the newer Fairlead {version}"),
    )
}

impl SchemaMismatch {
    /// Compares the newest migration of a store with this program's.
    pub(super) fn check(there: i64, known: i64, by: Option<String>) -> Result<(), Self> {
        match there.cmp(&known) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(SchemaMismatch::Newer { there, known, by }),
            std::cmp::Ordering::Less => Err(SchemaMismatch::Older { there, known }),
        }
    }

    pub(super) fn next_step(&self) -> &'static str {
        match self {
            SchemaMismatch::Newer { .. } => {
                "Start the Fairlead version that wrote it, or restore a backup of this version into a new folder."
            }
            SchemaMismatch::Older { .. } => {
                "Start this version's hub once to bring the tables up to date, or use the version that wrote them."
            }
            SchemaMismatch::Missing => {
                "Check `--data` and `--store`: no hub has used this store yet."
            }
        }
    }
}

/// Newest migration known to this program.
pub(super) fn newest(known: &sqlx::migrate::Migrator) -> i64 {
    let versions = known.iter().map(|migration| migration.version);
    versions.max().unwrap_or_default()
}
