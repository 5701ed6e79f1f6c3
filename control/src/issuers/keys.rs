//! Signing keys of an issuer, from a file or from its discovery document.
//!
//! Keys are fetched again when a token names an unknown key, and periodically, so that a withdrawn
//! key loses its trust. One caller fetches; others wait for it only if their key is unknown.

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
/// Minimum interval between fetches caused by unknown keys.
const REST: Duration = Duration::from_secs(10);
/// Maximum age of trusted keys while the issuer is unreachable.
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
    /// URL of the issuer, for OpenID Connect discovery.
    Discovery(String, Client),
}

pub(super) struct Keys {
    source: Source,
    held: Mutex<Held>,
    /// Held by the caller that fetches.
    turn: Turn<()>,
}

#[derive(Default)]
struct Held {
    keys: Vec<Key>,
    /// Time of the last successful fetch, and of the last attempt.
    read: Option<Instant>,
    tried: Option<Instant>,
    error: Option<String>,
}

struct Key {
    id: Option<String>,
    key: DecodingKey,
}

/// Result of a key lookup.
pub(super) enum Found {
    /// Candidates to try in turn: a token may name no key.
    Keys(Vec<DecodingKey>),
    None,
    /// The issuer is unreachable, so the key may exist.
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

    /// Candidate keys for the key id of a token.
    pub(super) async fn find(&self, id: Option<&str>) -> Found {
        let (fits, old) = {
            let held = self.held();
            (held.fits(id), held.is_older_than(REFRESH))
        };
        // If the issuer hangs, only one caller waits for the refresh of a known key.
        if fits && old {
            if let Ok(asking) = self.turn.try_lock() {
                self.refresh(asking).await;
            }
        } else if !fits {
            // Another caller may have fetched the key meanwhile.
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
            // Set before the fetch: a cancelled attempt counts, too.
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

    /// True if a matching key is still trusted.
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
    /// `None` unless the key verifies signatures of a public-key algorithm.
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
