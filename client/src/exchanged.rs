//! Tokens of a CI's own issuer, and the tokens of the hub for which they were exchanged (RFC 8693). One file per token of the
//! issuer, mode 0600, so that each call of kubectl in a job uses the same token of the hub.

use std::{fs, path::PathBuf};

use aws_lc_rs::digest;
use fairlead_api::{Code, Failure, HubUrl, hex, resources::ExchangedToken};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use time::OffsetDateTime;

use crate::{environment::Environment, files};

/// Variable with the token of the issuer.
const TOKEN_VARIABLE: &str = "FAIRLEAD_ISSUER_TOKEN";
/// Variable with the path of a file that holds it.
const FILE_VARIABLE: &str = "FAIRLEAD_ISSUER_TOKEN_FILE";
/// Time before the end of a token at which another one is requested; at most a fifth of its lifetime.
const REFRESH_MARGIN: time::Duration = time::Duration::seconds(120);

/// Source of the issuer's token, read again for each exchange.
#[derive(Clone)]
enum IssuerToken {
    File(PathBuf),
    Variable(SecretString),
}

/// Tokens of the hub that were exchanged for a token of an issuer.
#[derive(Clone)]
pub struct ExchangeStore {
    source: IssuerToken,
    /// `None` without a home: each command exchanges the token again.
    folder: Option<PathBuf>,
}

/// A token of the hub, with its end.
#[derive(Clone, Serialize, Deserialize)]
pub struct CachedToken {
    hub: HubUrl,
    #[serde(serialize_with = "exposed")]
    token: SecretString,
    #[serde(with = "time::serde::timestamp")]
    issued: OffsetDateTime,
    #[serde(with = "time::serde::timestamp")]
    expires: OffsetDateTime,
}

fn exposed<S: Serializer>(token: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose_secret())
}

impl CachedToken {
    pub(crate) fn new(hub: HubUrl, exchanged: &ExchangedToken) -> Self {
        let issued = OffsetDateTime::now_utc();
        CachedToken {
            hub,
            token: exchanged.access_token.clone(),
            issued,
            expires: exchanged.expires(issued),
        }
    }

    /// Token for the hub.
    #[must_use]
    pub const fn token(&self) -> &SecretString {
        &self.token
    }

    /// Time from which another token is requested.
    #[must_use]
    pub fn refresh_after(&self) -> OffsetDateTime {
        let lifetime = (self.expires - self.issued).max(time::Duration::ZERO);
        self.expires - REFRESH_MARGIN.min(lifetime / 5)
    }

    /// True until the token has expired.
    pub(crate) fn is_valid(&self) -> bool {
        OffsetDateTime::now_utc() < self.expires
    }
}

impl ExchangeStore {
    /// Store for the token in `file`, or else for that of the environment; `None` without one.
    #[must_use]
    pub fn of(environment: &Environment, file: Option<PathBuf>) -> Option<Self> {
        let file = file.or_else(|| environment.get(FILE_VARIABLE).map(PathBuf::from));
        let source = match (file, environment.get(TOKEN_VARIABLE)) {
            (Some(file), _) => IssuerToken::File(file),
            (None, Some(token)) => IssuerToken::Variable(token.into()),
            (None, None) => return None,
        };
        let folder = environment.config_dir().ok();
        Some(ExchangeStore {
            source,
            folder: folder.map(|it| it.join("exchanged")),
        })
    }

    /// The token of the issuer.
    ///
    /// # Errors
    /// `FL-4119` if its file cannot be read.
    pub fn issuer_token(&self) -> Result<SecretString, Failure> {
        match &self.source {
            IssuerToken::File(file) => Ok(files::token(file)?),
            IssuerToken::Variable(token) => Ok(token.clone()),
        }
    }

    /// File of the token of the hub. Another token of the issuer has another file.
    fn file(&self, hub: &HubUrl, issuer_token: &SecretString) -> Option<PathBuf> {
        let text = format!("{hub}\n{}", issuer_token.expose_secret());
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        let name = hex::encode(digest.as_ref().get(..16)?);
        Some(self.folder.as_ref()?.join(format!("{name}.toml")))
    }

    /// The stored token of a hub; one that has expired is like none.
    pub(crate) fn load(&self, hub: &HubUrl, issuer_token: &SecretString) -> Option<CachedToken> {
        let text = files::read(&self.file(hub, issuer_token)?).ok()?;
        let cached: CachedToken = toml::from_str(&text).ok()?;
        (cached.hub == *hub && cached.is_valid()).then_some(cached)
    }

    /// Stores a token, and removes the files of expired ones.
    ///
    /// # Errors
    /// `FL-4112`
    pub(crate) fn save(
        &self,
        cached: &CachedToken,
        issuer_token: &SecretString,
    ) -> Result<(), Failure> {
        let Some(file) = self.file(&cached.hub, issuer_token) else {
            return Ok(());
        };
        let text = toml::to_string(cached);
        let text = text.map_err(|error| Failure::because(Code::Internal, error))?;
        files::write(&file, &text)?;
        let others = file.parent().and_then(|folder| fs::read_dir(folder).ok());
        for other in others.into_iter().flatten().flatten() {
            let known = files::read(&other.path()).ok();
            let known = known.and_then(|text| toml::from_str::<CachedToken>(&text).ok());
            if known.is_some_and(|it| !it.is_valid()) {
                // Another process may have removed it.
                let _ = fs::remove_file(other.path());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn exchanged(seconds: u64) -> ExchangedToken {
        ExchangedToken {
            access_token: "flt_x".into(),
            issued_token_type: String::new(),
            token_type: "Bearer".to_owned(),
            expires_in: seconds,
        }
    }

    #[test]
    fn tokens_are_kept_by_hub_and_issuer_token_until_they_expire() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap();
        let environment = Environment::of(&[("XDG_CONFIG_HOME", path), (TOKEN_VARIABLE, "a.b.c")]);
        let store = ExchangeStore::of(&environment, None).unwrap();
        let (hub, other): (HubUrl, HubUrl) =
            ("https://a".parse().unwrap(), "https://b".parse().unwrap());
        let token = store.issuer_token().unwrap();
        assert!(store.load(&hub, &token).is_none());
        store
            .save(&CachedToken::new(hub.clone(), &exchanged(600)), &token)
            .unwrap();
        assert!(store.load(&hub, &token).is_some());
        assert!(store.load(&other, &token).is_none());
        assert!(store.load(&hub, &"d.e.f".into()).is_none());
        let files = || fs::read_dir(home.path().join("fairlead/exchanged")).unwrap();
        for file in files() {
            assert_eq!(file.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        }
        // An expired one goes with the next that is stored.
        store
            .save(&CachedToken::new(other.clone(), &exchanged(0)), &token)
            .unwrap();
        assert!(store.load(&other, &token).is_none());
        assert_eq!(files().count(), 1);
    }

    #[test]
    fn file_wins_over_the_variable() {
        let environment = Environment::of(&[(TOKEN_VARIABLE, "a.b.c")]);
        assert!(ExchangeStore::of(&Environment::of(&[]), None).is_none());
        let file = Some(PathBuf::from("/nowhere/token"));
        let store = ExchangeStore::of(&environment, file).unwrap();
        assert_eq!(store.issuer_token().unwrap_err().code, Code::CannotRead);
    }
}
