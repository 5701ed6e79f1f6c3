//! Stored sign-ins: one file per hub in the configuration folder, mode 0600, refreshed ahead of its end.
//!
//! An issuer may accept each refresh token once only. A file lock lets one process at a time refresh.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_api::{Code, Failure, HubUrl, resources::SignInIssuer};
use fairlead_dialer::ProxyRules;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use super::{
    browser::BrowserSignIn,
    error::SignInError,
    provider::{Answered, Provider},
    token::IssuedTokens,
};
use crate::{
    environment::Environment,
    files::{self, FileError},
};

/// Time before the end of a token at which it is refreshed; at most a fifth of its lifetime.
const REFRESH_MARGIN: time::Duration = time::Duration::seconds(120);
const LOCK_DEADLINE: Duration = Duration::from_secs(45);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Sign-in to one hub.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredSignIn {
    hub: HubUrl,
    #[serde(serialize_with = "exposed")]
    id_token: SecretString,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "exposed_option"
    )]
    refresh_token: Option<SecretString>,
    #[serde(with = "time::serde::timestamp")]
    pub(super) issued: OffsetDateTime,
    #[serde(with = "time::serde::timestamp")]
    pub(super) expires: OffsetDateTime,
    issuer: SignInIssuer,
}

fn exposed<S: Serializer>(token: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose_secret())
}

fn exposed_option<S: Serializer>(
    token: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match token {
        Some(token) => exposed(token, serializer),
        None => serializer.serialize_none(),
    }
}

impl StoredSignIn {
    /// Makes a sign-in of the tokens of a browser flow, or of the device flow without `browser`.
    ///
    /// # Errors
    /// [`SignInError`] if the ID token does not belong to the request.
    pub fn new(
        hub: HubUrl,
        provider: &Provider,
        browser: Option<&BrowserSignIn<'_>>,
        tokens: IssuedTokens,
    ) -> Result<Self, SignInError> {
        let (id_token, expires) =
            tokens.id_token(provider.issuer(), browser.map(BrowserSignIn::nonce))?;
        Ok(StoredSignIn {
            hub,
            id_token,
            refresh_token: tokens.refresh_token,
            issued: OffsetDateTime::now_utc(),
            expires,
            issuer: provider.issuer().clone(),
        })
    }

    /// Token for the hub.
    #[must_use]
    pub const fn token(&self) -> &SecretString {
        &self.id_token
    }

    /// The issuer of the sign-in.
    #[must_use]
    pub const fn issuer(&self) -> &SignInIssuer {
        &self.issuer
    }

    /// Refresh token, if the issuer gave one.
    #[must_use]
    pub const fn refresh_token(&self) -> Option<&SecretString> {
        self.refresh_token.as_ref()
    }

    /// Time from which the token is refreshed.
    #[must_use]
    pub fn refresh_after(&self) -> OffsetDateTime {
        let lifetime = (self.expires - self.issued).max(time::Duration::ZERO);
        self.expires - REFRESH_MARGIN.min(lifetime / 5)
    }

    async fn refreshed(&self, proxy: &ProxyRules) -> Result<Self, SignInError> {
        let Some(refresh_token) = &self.refresh_token else {
            let cause = "no refresh token: `offline_access` is no scope of this sign-in";
            return Err(SignInError::Ended(cause.to_owned()));
        };
        let provider = Provider::discover(self.issuer.clone(), proxy).await?;
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose_secret()),
        ];
        let tokens = match provider.tokens(&fields).await? {
            Answered::Ok(tokens) => tokens,
            Answered::Error(error) => return Err(SignInError::Ended(error.shown())),
        };
        let kept = tokens.refresh_token.clone();
        let mut new = StoredSignIn::new(self.hub.clone(), &provider, None, tokens)?;
        new.refresh_token = kept.or_else(|| self.refresh_token.clone());
        Ok(new)
    }
}

/// Folder of the stored sign-ins.
#[derive(Debug, Clone)]
pub struct SignInStore {
    folder: PathBuf,
    proxy: ProxyRules,
}

impl SignInStore {
    /// Store of this environment.
    ///
    /// # Errors
    /// `FL-4101` without a folder, or for an invalid proxy variable.
    pub fn of(environment: &Environment) -> Result<Self, Failure> {
        Ok(SignInStore {
            folder: environment.config_dir()?.join("sign-ins"),
            proxy: environment.proxy()?,
        })
    }

    fn file(&self, hub: &HubUrl) -> PathBuf {
        let authority = hub.authority().to_string();
        let safe = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => c,
            _ => '_',
        };
        let name: String = authority.chars().map(safe).collect();
        self.folder.join(format!("{name}.toml"))
    }

    /// Stores a sign-in.
    ///
    /// # Errors
    /// `FL-4112`
    pub fn save(&self, sign_in: &StoredSignIn) -> Result<(), Failure> {
        let text = toml::to_string(sign_in);
        let text = text.map_err(|error| Failure::because(Code::Internal, error))?;
        Ok(files::write(&self.file(&sign_in.hub), &text)?)
    }

    /// Reads the sign-in to a hub.
    ///
    /// # Errors
    /// [`SignInError::NotStored`], [`SignInError::File`]
    pub fn load(&self, hub: &HubUrl) -> Result<StoredSignIn, SignInError> {
        let path = self.file(hub);
        let text = match files::read(&path) {
            Err(FileError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Err(SignInError::NotStored(path));
            }
            text => text?,
        };
        // A damaged file is like none: a sign-in replaces it.
        let stored: Option<StoredSignIn> = toml::from_str(&text).ok();
        let stored = stored.filter(|it| it.hub == *hub);
        stored.ok_or(SignInError::NotStored(path))
    }

    /// Removes and returns the sign-in to a hub.
    ///
    /// # Errors
    /// `FL-4112`
    pub fn remove(&self, hub: &HubUrl) -> Result<Option<StoredSignIn>, Failure> {
        let stored = self.load(hub).ok();
        let path = self.file(hub);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let detail = format_args!("{}: {error}", path.display());
                Err(Failure::because(Code::CannotWrite, detail))
            }
            _ => Ok(stored),
        }
    }

    /// The sign-in to a hub, refreshed if its end is near. A valid token outlasts an issuer that is away.
    ///
    /// # Errors
    /// [`SignInError::Ended`] if the issuer refuses the refresh token, [`SignInError`]
    pub async fn current(&self, hub: &HubUrl) -> Result<StoredSignIn, SignInError> {
        let stored = self.load(hub)?;
        if OffsetDateTime::now_utc() < stored.refresh_after() {
            return Ok(stored);
        }
        let _lock = lock(&self.file(hub).with_extension("lock")).await?;
        // Another process may have refreshed it meanwhile.
        let stored = self.load(hub)?;
        let now = OffsetDateTime::now_utc();
        if now < stored.refresh_after() {
            return Ok(stored);
        }
        match stored.refreshed(&self.proxy).await {
            Ok(new) => {
                self.save(&new).map_err(SignInError::Client)?;
                Ok(new)
            }
            Err(SignInError::IssuerAway { .. }) if now < stored.expires => Ok(stored),
            Err(error) => Err(error),
        }
    }

    /// Revokes the refresh token of a removed sign-in; false if the issuer has no endpoint for it.
    ///
    /// # Errors
    /// [`SignInError::IssuerAway`], [`SignInError::BadIssuer`]
    pub async fn revoke(&self, sign_in: &StoredSignIn) -> Result<bool, SignInError> {
        let Some(refresh_token) = &sign_in.refresh_token else {
            return Ok(false);
        };
        let provider = Provider::discover(sign_in.issuer.clone(), &self.proxy).await?;
        provider.revoke(refresh_token.expose_secret()).await
    }
}

/// Waits for the lock of a file. It ends with the returned value, and with the process.
async fn lock(path: &Path) -> Result<File, SignInError> {
    let failed = |source: io::Error| {
        SignInError::File(FileError::Write {
            name: path.display().to_string(),
            source,
        })
    };
    let mut open = OpenOptions::new();
    let open = open.create(true).truncate(false).write(true).mode(0o600);
    let file = open.open(path).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LOCK_DEADLINE => {
                return Err(SignInError::Locked(path.to_owned()));
            }
            Err(TryLockError::WouldBlock) => sleep(LOCK_POLL_INTERVAL).await,
        }
    }
}
