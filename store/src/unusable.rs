//! Failures to open a store by cause, each with its own next step.

use std::error::Error;

use fairlead_api::{Code, Failure, error_chain};
use sqlx::migrate::MigrateError;

use crate::{
    error::{StoreError, cannot_be_reached},
    place::Place,
    schema::SchemaMismatch,
};

/// The failure for a store that cannot be opened or read.
pub fn unusable(place: &Place, error: &(dyn Error + 'static)) -> Failure {
    if let Some(tables) = error.downcast_ref::<SchemaMismatch>() {
        let cause = format!("the store {place} cannot be used: {tables}");
        return Failure::with_cause(Code::DataDir, cause).next(tables.next_step());
    }
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.clone();
    }
    if let Some(error @ (StoreError::Failed(cause) | StoreError::Full(cause))) =
        error.downcast_ref::<StoreError>()
    {
        return by_cause(place, cause, error);
    }
    if let Some(StoreError::Damaged(_)) = error.downcast_ref::<StoreError>() {
        return damaged(place, error);
    }
    match database_error(error) {
        Some(cause) => by_cause(place, cause, error),
        None => plain(place, error),
    }
}

/// The database's own error inside a migration error.
fn database_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a sqlx::Error> {
    if let Some(MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) =
        error.downcast_ref()
    {
        return Some(cause);
    }
    error.downcast_ref()
}

fn by_cause(place: &Place, cause: &sqlx::Error, whole: &(dyn Error + 'static)) -> Failure {
    let code = cause.as_database_error().and_then(|error| error.code());
    let number = code.as_deref().and_then(|code| code.parse::<u32>().ok());
    match place {
        // SQLite: 11 is CORRUPT, 26 NOTADB; higher bits hold details.
        Place::File(_) if matches!(number.map(|number| number & 0xff), Some(11 | 26)) => {
            damaged(place, cause)
        }
        // SQLite: 5 is BUSY.
        Place::File(_) if number.is_some_and(|number| number & 0xff == 5) => {
            plain(place, &"another program holds the file")
                .next("End the program that holds the file, and try again.")
        }
        Place::File(_) => plain(place, &error_chain(whole)),
        Place::Postgres(_) => of_postgres(place, cause, whole),
    }
}

fn of_postgres(place: &Place, cause: &sqlx::Error, whole: &(dyn Error + 'static)) -> Failure {
    let refused = |next: &'static str| {
        let cause = format!("PostgreSQL refuses the store {place}: {cause}");
        Failure::with_cause(Code::BadConfig, cause).next(next)
    };
    let code = cause.as_database_error().and_then(|error| error.code());
    // PostgreSQL, appendix A.
    match code.as_deref() {
        Some("28000" | "28P01") => {
            refused("Check the user in `--store`, and its password (`--store-password-file`).")
        }
        Some("3D000") => {
            refused("Create the database, or correct its name in `--store`; see the README.")
        }
        Some("42501") => refused("Let the user of `--store` create tables in this database."),
        _ if cannot_be_reached(cause) => away(place, &error_chain(cause)),
        _ => plain(place, &error_chain(whole)),
    }
}

/// PostgreSQL does not answer.
pub(super) fn away(place: &Place, detail: &dyn std::fmt::Display) -> Failure {
    let server = place.server();
    let cause = format!("PostgreSQL at {server} cannot be reached: {detail}");
    Failure::with_cause(Code::StoreAway, cause)
        .next("Check that PostgreSQL runs there, and that this machine may reach it.")
}

fn damaged(place: &Place, detail: &dyn std::fmt::Display) -> Failure {
    let cause = format!("the store {place} is damaged: {detail}");
    Failure::with_cause(Code::DataDir, cause)
        .next("Move the file aside, with those beside it that end in -wal and -shm, and restore the newest backup: `fairlead restore FILE --yes`.")
}

fn plain(place: &Place, detail: &dyn std::fmt::Display) -> Failure {
    let cause = format!("the store {place} cannot be used: {detail}");
    Failure::with_cause(Code::DataDir, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_and_older_tables_have_their_own_next_steps() {
        assert!(SchemaMismatch::check(6, 6, None).is_ok());
        let place: Place = "sqlite:/data/fairlead.db".parse().unwrap();
        let newer = SchemaMismatch::check(9, 6, Some("9.1.0".to_owned())).unwrap_err();
        let failure = unusable(&place, &newer);
        assert!(failure.cause.contains("newer Fairlead 9.1.0"), "{failure}");
        assert!(failure.next_step().contains("that wrote it"), "{failure:?}");
        let failure = unusable(&place, &SchemaMismatch::check(5, 6, None).unwrap_err());
        assert!(failure.next_step().contains("up to date"), "{failure:?}");
    }

    #[test]
    fn database_that_is_away_is_named_with_its_cause() {
        let place: Place = "postgres://me@db.example:5433/fairlead".parse().unwrap();
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let failure = unusable(&place, &sqlx::Error::Io(refused));
        assert_eq!(failure.code, Code::StoreAway);
        for part in ["db.example:5433", "connection refused"] {
            assert!(failure.cause.contains(part), "{failure}");
        }
    }
}
