//! InfluxDB's HTTP API, 1.x: writes and queries, bounded in time, without redirects. Error texts
//! contain neither credentials nor URLs.

use std::time::Duration;

use fairlead_api::{Code, Failure, error_chain};
use reqwest::{Client as Http, RequestBuilder, Response, Url, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// Deadlines of writes and queries.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
const QUERY_DEADLINE: Duration = Duration::from_secs(10);
/// Limit of a query's response, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Limit of an error response, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Maximum quoted length of an error response, in characters.
const MAX_QUOTED_CHARS: usize = 300;

/// Credentials of the hub.
#[derive(Debug, Clone, Default)]
pub enum InfluxLogin {
    /// No credentials.
    #[default]
    Nobody,
    /// HTTP Basic authentication.
    Password {
        /// User name in InfluxDB.
        user: String,
        /// Password of the user.
        password: SecretString,
    },
    /// `Authorization: Bearer ..`
    Token(SecretString),
}

pub(super) struct InfluxClient {
    http: Http,
    write: Url,
    query: Url,
    database: String,
    login: InfluxLogin,
}

/// Result of writing a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    /// All except these.
    Partly {
        dropped: u64,
        reason: String,
    },
    /// Something is invalid; possibly nothing was written.
    Rejected {
        reason: String,
    },
}

/// The result is unknown; retry.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    #[error("InfluxDB is unreachable: {0}")]
    Http(String),
    #[error("InfluxDB responded with {0}: {1}")]
    Status(u16, String),
}

impl From<reqwest::Error> for Unavailable {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        Unavailable::Http(error_chain(&error))
    }
}

/// A failed query.
#[derive(Debug, thiserror::Error)]
pub(super) enum InfluxQueryError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("InfluxDB rejected the query: {0}")]
    Rejected(String),
    #[error("the response exceeds {MAX_RESPONSE_BYTES} bytes")]
    TooLong,
}

impl InfluxClient {
    /// Builds the client.
    ///
    /// # Errors
    /// `FL-4101` if the certificates cannot be used.
    pub(super) fn new(
        base: &Url,
        database: &str,
        login: InfluxLogin,
        ca_pem: Option<&str>,
    ) -> Result<Self, Failure> {
        let tls = fairlead_certs::outer_client(ca_pem, None)?;
        let http = Http::builder()
            .tls_backend_preconfigured((*tls).clone())
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build();
        let at = |name: &str| {
            let mut url = base.clone();
            url.set_path(&format!("{}/{name}", base.path().trim_end_matches('/')));
            url
        };
        let mut write = at("write");
        write
            .query_pairs_mut()
            .append_pair("db", database)
            .append_pair("precision", "ms");
        Ok(InfluxClient {
            http: http.map_err(|error| Failure::because(Code::Internal, error))?,
            write,
            query: at("query"),
            database: database.to_owned(),
            login,
        })
    }

    /// Writes gzip-compressed lines.
    ///
    /// # Errors
    /// [`Unavailable`], also for rejected credentials and unknown databases: an operator can fix those.
    pub(super) async fn write(&self, gzip: Vec<u8>) -> Result<Written, Unavailable> {
        let request = self.http.post(self.write.clone()).timeout(WRITE_DEADLINE);
        let request = request.header("content-encoding", "gzip").body(gzip);
        let mut answer = self.known(request).send().await?;
        match answer.status().as_u16() {
            200..300 => Ok(Written::All),
            status @ (400 | 413 | 422) => {
                let reason = error_text(&mut answer).await?;
                Ok(match partly(&reason) {
                    Some(dropped) if status == 400 => Written::Partly { dropped, reason },
                    _ => Written::Rejected { reason },
                })
            }
            status => Err(Unavailable::Status(status, error_text(&mut answer).await?)),
        }
    }

    /// Result of the first statement.
    ///
    /// # Errors
    /// [`InfluxQueryError`]
    pub(super) async fn query(&self, query: &str) -> Result<Value, InfluxQueryError> {
        let request = self.http.post(self.query.clone()).timeout(QUERY_DEADLINE);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.body(form(&[("db", &self.database), ("q", query)]));
        let mut answer = self
            .known(request)
            .send()
            .await
            .map_err(Unavailable::from)?;
        match answer.status().as_u16() {
            200 => {}
            400 => return Err(InfluxQueryError::Rejected(error_text(&mut answer).await?)),
            status => {
                return Err(Unavailable::Status(status, error_text(&mut answer).await?).into());
            }
        }
        let body = read(&mut answer, MAX_RESPONSE_BYTES).await?;
        let body = body.ok_or(InfluxQueryError::TooLong)?;
        let not_json = || Unavailable::Http("the response is not JSON".to_owned());
        let mut body: Value = serde_json::from_slice(&body).map_err(|_| not_json())?;
        let result = body.pointer_mut("/results/0").ok_or_else(not_json)?.take();
        match result.get("error").and_then(Value::as_str) {
            Some(error) => Err(InfluxQueryError::Rejected(quote(error))),
            None => Ok(result),
        }
    }

    fn known(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.login {
            InfluxLogin::Nobody => request,
            InfluxLogin::Password { user, password } => {
                request.basic_auth(user, Some(password.expose_secret()))
            }
            InfluxLogin::Token(token) => request.bearer_auth(token.expose_secret()),
        }
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let url = Url::parse("http://form/").map(|mut url| {
        url.query_pairs_mut().extend_pairs(fields);
        url.query().unwrap_or_default().to_owned()
    });
    // A query string built from pairs is always valid.
    url.unwrap_or_default()
}

/// `None` if the body is longer.
async fn read(answer: &mut Response, max: usize) -> Result<Option<Vec<u8>>, Unavailable> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > max {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The error of a response, truncated.
async fn error_text(answer: &mut Response) -> Result<String, Unavailable> {
    let body = read(answer, MAX_ERROR_BYTES).await?.unwrap_or_default();
    let json: Option<Value> = serde_json::from_slice(&body).ok();
    let error = json.as_ref().and_then(|it| it.get("error")?.as_str());
    Ok(match error {
        Some(text) => quote(text),
        None => quote(&String::from_utf8_lossy(&body)),
    })
}

/// Keeps both ends: the end may contain the number of dropped lines.
fn quote(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_QUOTED_CHARS {
        return text.to_owned();
    }
    let half = MAX_QUOTED_CHARS / 2;
    let (begin, end): (String, String) = (
        text.chars().take(half).collect(),
        text.chars().skip(length - half).collect(),
    );
    format!("{begin} .. {end}")
}

/// `partial write: field type conflict: .. dropped=1`: the other lines were written.
fn partly(reason: &str) -> Option<u64> {
    let (_, behind) = reason.split_once("partial write")?;
    let dropped = behind.rsplit_once("dropped=").map(|(_, number)| number);
    let digits: String = dropped?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|dropped| *dropped > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_writes_report_the_number_of_dropped_lines() {
        let said = "partial write: field type conflict: input field \"x\" on measurement \"y\" is type float, already exists as type integer dropped=2";
        assert_eq!(partly(said), Some(2));
        assert_eq!(
            partly("partial write: unable to parse 'x': missing fields dropped=0"),
            None
        );
        assert_eq!(partly("unable to parse 'dropped=2'"), None);
        assert_eq!(
            partly(&quote(&format!(
                "partial write: {} dropped=3",
                "ä".repeat(999)
            ))),
            Some(3)
        );
    }

    #[test]
    fn forms_escape_all_characters() {
        assert_eq!(
            form(&[("db", "a b"), ("q", "SELECT \"é\" & 'x=y'")]),
            "db=a+b&q=SELECT+%22%C3%A9%22+%26+%27x%3Dy%27"
        );
    }
}
