//! HTTPS requests to issuers: bounded in size and time, redirects are not followed.

use std::{path::Path, time::Duration};

use fairlead_api::{Code, Failure, error_chain};
use reqwest::{Client, RequestBuilder, redirect};

/// Limit for the whole response.
const RESPONSE_DEADLINE: Duration = Duration::from_secs(5);
/// Limit of a response body, in bytes.
const MAX_RESPONSE_BYTES: usize = 512 * 1024;

fn bad_ca(table: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::because(Code::BadConfig, format_args!("[{table}] ca_file: {cause}"))
}

/// Reads the CA file of a table.
///
/// # Errors
/// `FL-4101` if it cannot be read.
pub(super) fn ca_pem(table: &str, ca_file: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(path) = ca_file else {
        return Ok(None);
    };
    let read = std::fs::read_to_string(path);
    let wrong = |error| bad_ca(table, format_args!("{}: {error}", path.display()));
    read.map(Some).map_err(wrong)
}

/// Builds a client for the issuer of a table.
///
/// # Errors
/// `FL-4101` if the CA file cannot be used.
pub(super) fn client(table: &str, ca_file: Option<&Path>) -> Result<Client, Failure> {
    let ca = ca_pem(table, ca_file)?;
    let tls = fairlead_certs::outer_client(ca.as_deref(), None)
        .map_err(|error| bad_ca(table, Failure::from(error).cause))?;
    let client = Client::builder()
        .tls_backend_preconfigured((*tls).clone())
        .https_only(true)
        // Only the configuration chooses the server, never a response.
        .redirect(redirect::Policy::none())
        .timeout(RESPONSE_DEADLINE)
        .build();
    client.map_err(|error| Failure::because(Code::Internal, error))
}

/// A failed request. The texts contain no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{0}")]
    Http(String),
    #[error("the server responded with {0}")]
    Status(u16),
    #[error("the response exceeds {MAX_RESPONSE_BYTES} bytes")]
    TooLong,
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        FetchError::Http(error_chain(&error))
    }
}

/// Sends a request and reads its bounded response.
///
/// # Errors
/// [`FetchError`]
pub(super) async fn fetch(request: RequestBuilder) -> Result<Vec<u8>, FetchError> {
    let mut answer = request.send().await?;
    if !answer.status().is_success() {
        return Err(FetchError::Status(answer.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(FetchError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
