//! Opens the database of a store.

use std::{sync::Arc, time::Duration};

use fairlead_api::Failure;

use crate::{backend::Backend, place::Place, postgres, sqlite, unusable::unusable};

/// Time a writer waits for another program's lock on the file.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn backend(
    place: &Place,
    busy: Duration,
    as_it_is: bool,
) -> Result<Arc<dyn Backend>, Failure> {
    match place {
        Place::File(path) => match sqlite::SqliteBackend::open(path, busy, as_it_is).await {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => Err(unusable(place, error.as_ref())),
        },
        Place::Postgres(it) => {
            let options = it.options.clone();
            match postgres::PostgresBackend::open(options, as_it_is).await {
                Ok(database) => Ok(Arc::new(database)),
                Err(error) => Err(unusable(place, error.as_ref())),
            }
        }
    }
}

/// True if no program has used this store yet.
///
/// # Errors
/// `FL-4103` if it cannot be read, `FL-5104` if its database is unreachable.
pub async fn is_new(place: &Place) -> Result<bool, Failure> {
    match place {
        Place::File(path) => match std::fs::metadata(path) {
            Ok(about) => Ok(about.len() == 0),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(unusable(place, &error)),
        },
        Place::Postgres(it) => {
            let new = postgres::is_new(it.options.clone()).await;
            new.map_err(|error| unusable(place, &error))
        }
    }
}

/// An existing database, without creation or migration.
pub(crate) async fn as_it_is(place: &Place) -> Result<Arc<dyn Backend>, Failure> {
    backend(place, BUSY_TIMEOUT, true).await
}

pub(crate) async fn up_to_date(place: &Place) -> Result<Arc<dyn Backend>, Failure> {
    backend(place, BUSY_TIMEOUT, false).await
}
