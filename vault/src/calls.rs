//! Requests to Vault's HTTP API: bounded in time and size, without redirects. Texts of errors
//! contain no token.

use std::time::Duration;

use fairlead_api::error_chain;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use crate::{error::VaultError, login::HubLogin};

/// Deadline of one request with its response.
const REQUEST_DEADLINE: Duration = Duration::from_secs(15);
/// Limit of a response body, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum quoted length of Vault's messages, in characters.
const MAX_MESSAGE_CHARS: usize = 300;
/// Pause if Vault limits requests and names no time.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Each valid token may read it.
pub(crate) const LOOKUP_PATH: &str = "auth/token/lookup-self";
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// HTTP API of one Vault.
#[derive(Debug)]
pub(crate) struct VaultCalls {
    pub(crate) http: Client,
    /// Address, with a slash at its end or without.
    pub(crate) address: Url,
    /// Namespace of Vault Enterprise.
    pub(crate) namespace: Option<HeaderValue>,
    pub(crate) login: HubLogin,
}

/// Response to a request without an error.
pub(crate) enum RawReply {
    Found(Value),
    Missing,
    /// Status 400, with Vault's message.
    Refused(String),
    /// Status 403.
    Forbidden,
}

impl VaultCalls {
    /// Reads `data` of a path. `None` if there is nothing: Vault answers 404, for auth methods 400.
    ///
    /// # Errors
    /// [`VaultError`]
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Value>, VaultError> {
        match self.send(Method::GET, path, None).await? {
            RawReply::Found(mut body) => {
                Ok(Some(body.get_mut("data").map_or(Value::Null, Value::take)))
            }
            RawReply::Missing => Ok(None),
            RawReply::Refused(cause) if cause.starts_with("No auth engine at") => Ok(None),
            RawReply::Refused(cause) => Err(refused(path, &cause)),
            RawReply::Forbidden => Err(self.forbidden("read", path).await),
        }
    }

    /// Names below a path of metadata; a name with a slash at its end is a folder.
    ///
    /// # Errors
    /// [`VaultError`]
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, VaultError> {
        match self
            .send(Method::GET, &format!("{path}?list=true"), None)
            .await?
        {
            RawReply::Found(body) => {
                let keys = body.pointer("/data/keys").and_then(Value::as_array);
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                Ok(keys.map(str::to_owned).collect())
            }
            RawReply::Missing => Ok(Vec::new()),
            RawReply::Refused(cause) => Err(refused(path, &cause)),
            RawReply::Forbidden => Err(self.forbidden("list", path).await),
        }
    }

    /// Writes to a path.
    ///
    /// # Errors
    /// [`VaultError`]
    pub(crate) async fn write(&self, path: &str, body: &Value) -> Result<(), VaultError> {
        match self.send(Method::POST, path, Some(body)).await? {
            RawReply::Found(_) => Ok(()),
            RawReply::Missing => Err(refused(path, "there is no such path")),
            RawReply::Refused(cause) => Err(refused(path, &cause)),
            RawReply::Forbidden => Err(self.forbidden("create, update and sudo", path).await),
        }
    }

    /// Deletes a path. A missing one is a success.
    ///
    /// # Errors
    /// [`VaultError`]
    pub(crate) async fn delete(&self, path: &str) -> Result<(), VaultError> {
        match self.send(Method::DELETE, path, None).await? {
            RawReply::Found(_) | RawReply::Missing => Ok(()),
            RawReply::Refused(cause) => Err(refused(path, &cause)),
            RawReply::Forbidden => Err(self.forbidden("delete and sudo", path).await),
        }
    }

    /// Tells a bad token from a missing right: each valid token may look itself up.
    async fn forbidden(&self, right: &str, path: &str) -> VaultError {
        match self.send(Method::GET, LOOKUP_PATH, None).await {
            Ok(RawReply::Forbidden) => VaultError::Token("it is invalid or has expired".to_owned()),
            Ok(_) => VaultError::Right(format!("{right} on {path}")),
            Err(error) => error,
        }
    }

    /// Sends a request with the hub's token. A token of a login that Vault has forgotten is replaced by another login.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<RawReply, VaultError> {
        let token = self.login.token(self).await?;
        let sent = self.send_with(method.clone(), path, body, Some(&token), &token);
        let reply = sent.await?;
        if !matches!(reply, RawReply::Forbidden) || path == LOOKUP_PATH {
            return Ok(reply);
        }
        let lookup = self.send_with(Method::GET, LOOKUP_PATH, None, Some(&token), &token);
        let is_void = matches!(lookup.await?, RawReply::Forbidden);
        if !is_void || !self.login.forget(&token).await {
            return Ok(reply);
        }
        let token = self.login.token(self).await?;
        self.send_with(method, path, body, Some(&token), &token)
            .await
    }

    /// Sends a request with a token, or with none. `secret` is removed from Vault's messages.
    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        token: Option<&SecretString>,
        secret: &SecretString,
    ) -> Result<RawReply, VaultError> {
        let base = self.address.as_str().trim_end_matches('/');
        let mut request = self
            .http
            .request(method, format!("{base}/v1/{path}"))
            .timeout(REQUEST_DEADLINE)
            .header("x-vault-request", "true");
        if let Some(token) = token {
            request = request.header("x-vault-token", secret_header(token)?);
        }
        if let Some(namespace) = &self.namespace {
            request = request.header("x-vault-namespace", namespace.clone());
        }
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let mut answer = request.send().await.map_err(unreachable)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let cause = format!("the response exceeds {MAX_RESPONSE_BYTES} bytes");
                return Err(VaultError::Away(cause));
            }
            bytes.extend_from_slice(&chunk);
        }
        judge(status, &headers, &bytes, secret)
    }
}

fn secret_header(token: &SecretString) -> Result<HeaderValue, VaultError> {
    let cause = || VaultError::Token("it has characters that no header has".to_owned());
    let value = HeaderValue::from_str(token.expose_secret());
    let mut value = value.map_err(|_| cause())?;
    value.set_sensitive(true);
    Ok(value)
}

fn judge(
    status: StatusCode,
    headers: &HeaderMap,
    bytes: &[u8],
    token: &SecretString,
) -> Result<RawReply, VaultError> {
    let message = || message_of(bytes).replace(token.expose_secret(), "***");
    match status.as_u16() {
        200..=299 if bytes.is_empty() => Ok(RawReply::Found(Value::Null)),
        200..=299 => match serde_json::from_slice(bytes) {
            Ok(body) => Ok(RawReply::Found(body)),
            Err(_) => Err(VaultError::Away("the response is no JSON".to_owned())),
        },
        301 | 302 | 303 | 307 | 308 => {
            let cause = "it is a standby and redirects; let `address` name the active server or a load balancer";
            Err(VaultError::Away(cause.to_owned()))
        }
        400 | 405 => Ok(RawReply::Refused(message())),
        403 => Ok(RawReply::Forbidden),
        404 => Ok(RawReply::Missing),
        429 => Err(VaultError::Throttled {
            wait: wait_of(headers),
        }),
        503 if message().contains("sealed") => Err(VaultError::Sealed),
        status => Err(VaultError::Away(format!("status {status}: {}", message()))),
    }
}

fn wait_of(headers: &HeaderMap) -> Duration {
    let seconds = headers.get("retry-after").and_then(|it| it.to_str().ok());
    let seconds = seconds.and_then(|it| it.trim().parse().ok());
    seconds
        .map_or(DEFAULT_WAIT, Duration::from_secs)
        .min(MAX_WAIT)
}

fn message_of(bytes: &[u8]) -> String {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let errors = body.get("errors").and_then(Value::as_array);
    let errors: Vec<&str> = errors
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let text = errors.join("; ");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_MESSAGE_CHARS).collect()
}

fn refused(path: &str, cause: &str) -> VaultError {
    VaultError::Refused(format!("{path}: {cause}"))
}

fn unreachable(error: reqwest::Error) -> VaultError {
    VaultError::Away(error_chain(&error.without_url()))
}
