//! Location of the store: a file, or a PostgreSQL database. It never contains a password, which
//! would leak into process lists and logs.

use std::{fmt, path::PathBuf, str::FromStr};

use fairlead_api::{Code, Failure};
use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// A store's address: `sqlite:PATH`, or
/// `postgres://USER@HOST[:PORT]/DATABASE[?sslmode=..&sslrootcert=..]`.
#[derive(Clone)]
pub enum Place {
    /// SQLite database in a file.
    File(PathBuf),
    /// PostgreSQL database.
    Postgres(Box<Postgres>),
}

/// A PostgreSQL database with its connection options.
#[derive(Clone)]
pub struct Postgres {
    pub(super) options: PgConnectOptions,
    url: String,
}

impl Place {
    /// Host and port of PostgreSQL, or its socket; the path of a file.
    pub(super) fn server(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Postgres(it) => match it.options.get_socket() {
                Some(socket) => socket.display().to_string(),
                None => format!("{}:{}", it.options.get_host(), it.options.get_port()),
            },
        }
    }

    /// Host and port of PostgreSQL; `None` for a file or a socket.
    #[must_use]
    pub fn host(&self) -> Option<(String, u16)> {
        match self {
            Place::Postgres(it) if it.options.get_socket().is_none() => {
                Some((it.options.get_host().to_owned(), it.options.get_port()))
            }
            Place::File(_) | Place::Postgres(_) => None,
        }
    }

    /// Adds the database password.
    #[must_use]
    pub fn with_password(self, password: Option<&SecretString>) -> Self {
        match (self, password) {
            (Place::Postgres(it), Some(password)) => Place::Postgres(Box::new(Postgres {
                options: it.options.password(password.expose_secret()),
                url: it.url,
            })),
            (place, _) => place,
        }
    }
}

impl FromStr for Place {
    type Err = Failure;

    /// Without `sslmode`, a server on another machine must present a valid certificate
    /// (`verify-full`).
    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = |detail: &str| Failure::because(Code::BadConfig, detail);
        if let Some(path) = text.strip_prefix("sqlite:") {
            return Ok(Place::File(path.trim_start_matches("//").into()));
        }
        let rest = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .ok_or_else(|| wrong("expected sqlite:PATH or postgres://USER@HOST/DATABASE"))?;
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = before.split('/').next().unwrap_or(before);
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        if user.contains(':') || query.split('&').any(|pair| pair.starts_with("password=")) {
            return Err(wrong(
                "a password is not allowed here; use --store-password-file or FAIRLEAD_STORE_PASSWORD",
            ));
        }
        let options: PgConnectOptions = text.parse().map_err(|_| wrong("it cannot be read"))?;
        let local = options.get_socket().is_some()
            || options.get_host().starts_with('/')
            || matches!(
                options.get_host(),
                "localhost" | "127.0.0.1" | "::1" | "[::1]"
            );
        let chosen = query
            .split('&')
            .any(|pair| pair.starts_with("sslmode=") || pair.starts_with("ssl-mode="));
        let options = match (local, chosen) {
            (false, false) => options.ssl_mode(PgSslMode::VerifyFull),
            _ => options,
        };
        Ok(Place::Postgres(Box::new(Postgres {
            options: options.application_name("fairlead"),
            url: text.to_owned(),
        })))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Postgres(it) => f.write_str(&it.url),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_refused_and_never_displayed() {
        for bad in [
            "postgres://me:secret@db/fairlead",
            "postgres://me@db/fairlead?password=secret",
            "mysql://db/fairlead",
            "fairlead.db",
        ] {
            let failure = bad.parse::<Place>().unwrap_err();
            assert_eq!(failure.code, Code::BadConfig);
            assert!(!failure.cause.contains("secret"), "{failure}");
        }
        let place: Place = "postgres://me@db/fairlead".parse().unwrap();
        let place = place.with_password(Some(&SecretString::from("secret")));
        assert!(!format!("{place} {place:?}").contains("secret"));
    }

    #[test]
    fn remote_servers_must_present_a_certificate_by_default() {
        let mode = |text: &str| match text.parse().unwrap() {
            Place::Postgres(it) => format!("{:?}", it.options.get_ssl_mode()),
            Place::File(path) => path.display().to_string(),
        };
        assert_eq!(mode("postgres://me@db.example/fairlead"), "VerifyFull");
        assert_eq!(
            mode("postgres://me@db.example/fairlead?sslmode=require"),
            "Require"
        );
        assert_eq!(mode("postgres://me@127.0.0.1:5433/fairlead"), "Prefer");
        assert_eq!(
            mode("postgres:///fairlead?host=/run/postgresql&user=me"),
            "Prefer"
        );
        assert_eq!(mode("sqlite:/var/lib/x.db"), "/var/lib/x.db");
    }
}
