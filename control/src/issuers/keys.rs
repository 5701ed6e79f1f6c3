//! An issuer's keys: from a file, or where its discovery document says. Asked for anew when a token names one that is not
//! known, and now and then so that a key that was taken back is not believed for ever; one caller asks, the others wait.

use std::{path::PathBuf, time::Duration};

use jsonwebtoken::{
    DecodingKey,
    jwk::{Jwk, JwkSet, PublicKeyUse},
};
use reqwest::Client;
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};
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
        }
    }

    /// The keys for a token that names this one.
    pub(super) async fn find(&self, id: Option<&str>) -> Found {
        let mut held = self.held.lock().await;
        if held.is_older_than(REFRESH) {
            self.refresh(&mut held).await;
        }
        let mut keys = held.of(id);
        if keys.is_empty() && held.read.is_some() {
            // It may have been made since.
            self.refresh(&mut held).await;
            keys = held.of(id);
        }
        let usable = held.read.is_some_and(|read| read.elapsed() < STALE);
        match &held.error {
            _ if usable && !keys.is_empty() => Found::Keys(keys),
            Some(error) => Found::Unknown(error.clone()),
            None => Found::None,
        }
    }

    async fn refresh(&self, held: &mut Held) {
        if held.tried.is_some_and(|tried| tried.elapsed() < REST) {
            return;
        }
        held.tried = Some(Instant::now());
        match self.read().await {
            Ok(keys) => {
                if held.read.is_none() {
                    info!(keys = keys.len(), "keys of an issuer of tokens read");
                }
                held.keys = keys;
                held.read = held.tried;
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

    fn of(&self, id: Option<&str>) -> Vec<DecodingKey> {
        let fits = |key: &&Key| id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        self.keys
            .iter()
            .filter(fits)
            .map(|key| key.key.clone())
            .collect()
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
