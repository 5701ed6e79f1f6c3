//! Token of the hub: from a file, or by a login. A token of a login is in memory only, and is replaced when Vault refuses it.

use std::path::PathBuf;

use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    calls::{RawReply, VaultCalls},
    error::VaultError,
    token,
};

/// Source of the hub's token.
#[derive(Debug)]
pub(crate) enum HubLogin {
    /// A file with the token.
    File(PathBuf),
    /// A login at an auth method.
    Role {
        /// Path of the auth method.
        mount: String,
        credentials: RoleCredentials,
        /// Token of the last login.
        token: Mutex<Option<SecretString>>,
    },
}

/// Credentials of a login.
#[derive(Debug)]
pub(crate) enum RoleCredentials {
    /// AppRole.
    AppRole {
        role_id_file: PathBuf,
        secret_id_file: PathBuf,
    },
    /// Token of the hub's ServiceAccount.
    Kubernetes { role: String, token_file: PathBuf },
}

impl RoleCredentials {
    /// Body of the login, and its secret.
    ///
    /// # Errors
    /// The reason, with the name of the setting.
    pub(crate) fn read(&self) -> Result<(Value, SecretString), String> {
        match self {
            RoleCredentials::AppRole {
                role_id_file,
                secret_id_file,
            } => {
                let role = token::read("role_id_file", role_id_file)?;
                let secret = token::read("secret_id_file", secret_id_file)?;
                let (role_id, secret_id) = (role.expose_secret(), secret.expose_secret());
                let body = json!({ "role_id": role_id, "secret_id": secret_id });
                Ok((body, secret))
            }
            RoleCredentials::Kubernetes { role, token_file } => {
                let jwt = token::read_mounted("kubernetes.token_file", token_file)?;
                let body = json!({ "role": role, "jwt": jwt.expose_secret() });
                Ok((body, jwt))
            }
        }
    }
}

impl HubLogin {
    /// Checks that the files can be read.
    ///
    /// # Errors
    /// The reason, with the name of the setting.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            HubLogin::File(file) => token::read("token_file", file).map(drop),
            HubLogin::Role { credentials, .. } => credentials.read().map(drop),
        }
    }

    /// The token; a login makes it if there is none yet.
    ///
    /// # Errors
    /// [`VaultError`]
    pub(crate) async fn token(&self, calls: &VaultCalls) -> Result<SecretString, VaultError> {
        let (mount, credentials, token) = match self {
            HubLogin::File(file) => {
                return token::read("token_file", file).map_err(VaultError::Token);
            }
            HubLogin::Role {
                mount,
                credentials,
                token,
            } => (mount, credentials, token),
        };
        // One login at a time: the others wait for its token.
        let mut known = token.lock().await;
        if let Some(known) = known.as_ref() {
            return Ok(known.clone());
        }
        let (body, secret) = credentials.read().map_err(VaultError::Token)?;
        let path = format!("auth/{mount}/login");
        let reply = calls.send_with(Method::POST, &path, Some(&body), None, &secret);
        let made = match reply.await? {
            RawReply::Found(body) => token_of(&body),
            RawReply::Missing => return Err(refused(mount, "there is no such auth method")),
            RawReply::Refused(cause) => return Err(refused(mount, &cause)),
            RawReply::Forbidden => return Err(refused(mount, "permission denied")),
        };
        let made = made.ok_or_else(|| refused(mount, "the answer has no token"))?;
        *known = Some(made.clone());
        Ok(made)
    }

    /// Drops a token of a login that Vault does not accept any more. False for a token of a file.
    pub(crate) async fn forget(&self, refused: &SecretString) -> bool {
        let HubLogin::Role { token, .. } = self else {
            return false;
        };
        let mut known = token.lock().await;
        // Another request may have logged in since.
        let is_same = |it: &SecretString| it.expose_secret() == refused.expose_secret();
        if known.as_ref().is_some_and(is_same) {
            *known = None;
        }
        true
    }
}

fn token_of(body: &Value) -> Option<SecretString> {
    let token = body.pointer("/auth/client_token")?.as_str()?;
    Some(token.to_owned().into())
}

fn refused(mount: &str, cause: &str) -> VaultError {
    VaultError::Token(format!("login at auth/{mount}: {cause}"))
}
