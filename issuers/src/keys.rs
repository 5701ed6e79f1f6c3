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
    sync::{Mutex as FetchLock, MutexGuard as FetchGuard},
    time::Instant,
};
use tracing::{info, warn};

use super::fetch::{FetchError, fetch};

const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// Minimum interval between fetches caused by unknown keys.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum age of trusted keys while the issuer is unreachable.
const MAX_KEYS_AGE: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("fetching its keys failed: {0}")]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Content(String),
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: String },
}

pub(super) enum KeySource {
    File(PathBuf),
    /// URL of the issuer, for OpenID Connect discovery.
    Discovery(String, Client),
}

pub(super) struct Keys {
    source: KeySource,
    set: Mutex<KeySet>,
    /// Held by the caller that fetches.
    fetching: FetchLock<()>,
}

#[derive(Default)]
struct KeySet {
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
pub(super) enum KeyLookup {
    /// Candidates to try in turn: a token may name no key.
    Keys(Vec<DecodingKey>),
    None,
    /// The issuer is unreachable, so the key may exist.
    Unreachable(String),
}

impl Keys {
    pub(super) fn new(source: KeySource) -> Self {
        Keys {
            source,
            set: Mutex::default(),
            fetching: FetchLock::default(),
        }
    }

    fn set(&self) -> MutexGuard<'_, KeySet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Candidate keys for the key id of a token.
    pub(super) async fn find(&self, id: Option<&str>) -> KeyLookup {
        let (matches, old) = {
            let set = self.set();
            (set.matches(id), set.is_older_than(REFRESH_INTERVAL))
        };
        // If the issuer hangs, only one caller waits for the refresh of a known key.
        if matches && old {
            if let Ok(guard) = self.fetching.try_lock() {
                self.refresh(guard).await;
            }
        } else if !matches {
            // Another caller may have fetched the key meanwhile.
            self.refresh(self.fetching.lock().await).await;
        }
        self.set().found(id)
    }

    async fn refresh(&self, _guard: FetchGuard<'_, ()>) {
        {
            let mut set = self.set();
            if set
                .tried
                .is_some_and(|tried| tried.elapsed() < MIN_FETCH_INTERVAL)
            {
                return;
            }
            // Set before the fetch: a cancelled attempt counts, too.
            set.tried = Some(Instant::now());
        }
        let begun = Instant::now();
        let read = self.read().await;
        let mut set = self.set();
        set.tried = Some(Instant::now());
        match read {
            Ok(keys) => {
                if set.read.is_none() {
                    info!(keys = keys.len(), "issuer keys loaded");
                }
                set.keys = keys;
                set.read = Some(begun);
                set.error = None;
            }
            Err(error) => {
                let error = error.to_string();
                warn!(%error, "issuer keys not loaded");
                set.error = Some(error);
            }
        }
    }

    async fn read(&self) -> Result<Vec<Key>, KeysError> {
        let text = match &self.source {
            KeySource::File(path) => {
                tokio::fs::read(path)
                    .await
                    .map_err(|error| KeysError::File {
                        path: path.clone(),
                        cause: error.to_string(),
                    })?
            }
            KeySource::Discovery(issuer, client) => discover(issuer, client).await?,
        };
        let set: JwkSet = serde_json::from_slice(&text)
            .map_err(|error| KeysError::Content(format!("not a JSON Web Key Set: {error}")))?;
        Ok(set.keys.iter().filter_map(Key::of).collect())
    }
}

impl KeySet {
    fn is_older_than(&self, age: Duration) -> bool {
        self.read.is_none_or(|read| read.elapsed() > age)
    }

    fn of<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Key> {
        let matches = move |key: &&Key| id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        self.keys.iter().filter(matches)
    }

    /// True if a matching key is still trusted.
    fn matches(&self, id: Option<&str>) -> bool {
        !self.is_older_than(MAX_KEYS_AGE) && self.of(id).next().is_some()
    }

    fn found(&self, id: Option<&str>) -> KeyLookup {
        match &self.error {
            _ if self.matches(id) => {
                KeyLookup::Keys(self.of(id).map(|key| key.key.clone()).collect())
            }
            Some(error) => KeyLookup::Unreachable(error.clone()),
            None => KeyLookup::None,
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
    struct DiscoveryDocument {
        issuer: String,
        jwks_uri: String,
    }
    let at = format!(
        "{}/.well-known/openid-configuration",
        issuer.trim_end_matches('/')
    );
    let text = fetch(client.get(at)).await?;
    let document: DiscoveryDocument = serde_json::from_slice(&text)
        .map_err(|error| KeysError::Content(format!("invalid discovery document: {error}")))?;
    if document.issuer != issuer {
        let cause = format!("its discovery document names issuer {:?}", document.issuer);
        return Err(KeysError::Content(cause));
    }
    Ok(fetch(client.get(document.jwks_uri)).await?)
}
