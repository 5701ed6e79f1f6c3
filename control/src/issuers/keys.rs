//! An issuer's keys: from a file, or where its discovery document says. Asked for anew when a token names one that is not
//! known, and now and then so that a key that was taken back is not believed for ever. One caller asks; others wait for that
//! only if they cannot go on without.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jsonwebtoken::{
    DecodingKey,
    jwk::{Jwk, JwkSet, PublicKeyUse},
};
use reqwest::Client;
use serde::Deserialize;
use tokio::{
    sync::{Mutex as Turn, MutexGuard as Asking},
    time::Instant,
};
use tracing::{info, warn};

use super::fetch::{FetchError, fetch};

const REFRESH: Duration = Duration::from_secs(600);
/// Tokens that name unknown keys have the issuer asked at most this often.
const REST: Duration = Duration::from_secs(10);
/// Keys of an issuer that does not answer are believed for this long.
const STALE: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("its keys cannot be read: {0}")]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Content(String),
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: String },
}

pub(super) enum Source {
    File(PathBuf),
    /// Of the issuer with this URL.
    Discovery(String, Client),
}

pub(super) struct Keys {
    source: Source,
    held: Mutex<Held>,
    /// Held by who asks.
    turn: Turn<()>,
}

#[derive(Default)]
struct Held {
    keys: Vec<Key>,
    /// When they were read, and when that was tried last.
    read: Option<Instant>,
    tried: Option<Instant>,
    error: Option<String>,
}

struct Key {
    id: Option<String>,
    key: DecodingKey,
}

/// Where a token's key may be.
pub(super) enum Found {
    /// One after the other is to be tried: a token may name none.
    Keys(Vec<DecodingKey>),
    None,
    /// The issuer cannot be asked now.
    Unknown(String),
}

impl Keys {
    pub(super) fn new(source: Source) -> Self {
        Keys {
            source,
            held: Mutex::default(),
            turn: Turn::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys for a token that names this one.
    pub(super) async fn find(&self, id: Option<&str>) -> Found {
        let (fits, old) = {
            let held = self.held();
            (held.fits(id), held.is_older_than(REFRESH))
        };
        // An issuer that hangs is no reason for many to wait whose key is known.
        if fits && old {
            if let Ok(asking) = self.turn.try_lock() {
                self.refresh(asking).await;
            }
        } else if !fits {
            // It may have been made since.
            self.refresh(self.turn.lock().await).await;
        }
        self.held().found(id)
    }

    async fn refresh(&self, _alone: Asking<'_, ()>) {
        {
            let mut held = self.held();
            if held.tried.is_some_and(|tried| tried.elapsed() < REST) {
                return;
            }
            // Also by who gives up in the middle of it.
            held.tried = Some(Instant::now());
        }
        let begun = Instant::now();
        let read = self.read().await;
        let mut held = self.held();
        held.tried = Some(Instant::now());
        match read {
            Ok(keys) => {
                if held.read.is_none() {
                    info!(keys = keys.len(), "keys of an issuer of tokens read");
                }
                held.keys = keys;
                held.read = Some(begun);
                held.error = None;
            }
            Err(error) => {
                let error = error.to_string();
                warn!(%error, "keys of an issuer of tokens cannot be read");
                held.error = Some(error);
            }
        }
    }

    async fn read(&self) -> Result<Vec<Key>, KeysError> {
        let text = match &self.source {
            Source::File(path) => tokio::fs::read(path)
                .await
                .map_err(|error| KeysError::File {
                    path: path.clone(),
                    cause: error.to_string(),
                })?,
            Source::Discovery(issuer, client) => discover(issuer, client).await?,
        };
        let set: JwkSet = serde_json::from_slice(&text)
            .map_err(|error| KeysError::Content(format!("that is no set of keys: {error}")))?;
        Ok(set.keys.iter().filter_map(Key::of).collect())
    }
}

impl Held {
    fn is_older_than(&self, age: Duration) -> bool {
        self.read.is_none_or(|read| read.elapsed() > age)
    }

    fn of<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Key> {
        let fits = move |key: &&Key| id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        self.keys.iter().filter(fits)
    }

    /// Whether there is a key that may be believed.
    fn fits(&self, id: Option<&str>) -> bool {
        !self.is_older_than(STALE) && self.of(id).next().is_some()
    }

    fn found(&self, id: Option<&str>) -> Found {
        match &self.error {
            _ if self.fits(id) => Found::Keys(self.of(id).map(|key| key.key.clone()).collect()),
            Some(error) => Found::Unknown(error.clone()),
            None => Found::None,
        }
    }
}

impl Key {
    /// None for what verifies no signature of a public key.
    fn of(jwk: &Jwk) -> Option<Self> {
        use jsonwebtoken::jwk::AlgorithmParameters::OctetKey;
        let signs = jwk
            .common
            .public_key_use
            .as_ref()
            .is_none_or(|it| *it == PublicKeyUse::Signature);
        if !signs || matches!(jwk.algorithm, OctetKey(_)) {
            return None;
        }
        Some(Key {
            id: jwk.common.key_id.clone(),
            key: DecodingKey::from_jwk(jwk).ok()?,
        })
    }
}

/// OpenID Connect Discovery 1.0, section 4.
async fn discover(issuer: &str, client: &Client) -> Result<Vec<u8>, KeysError> {
    #[derive(Deserialize)]
    struct Document {
        issuer: String,
        jwks_uri: String,
    }
    let at = format!(
        "{}/.well-known/openid-configuration",
        issuer.trim_end_matches('/')
    );
    let text = fetch(client.get(at)).await?;
    let document: Document = serde_json::from_slice(&text).map_err(|error| {
        KeysError::Content(format!("its discovery document cannot be used: {error}"))
    })?;
    if document.issuer != issuer {
        let cause = format!("its discovery document is of {:?}", document.issuer);
        return Err(KeysError::Content(cause));
    }
    Ok(fetch(client.get(document.jwks_uri)).await?)
}
