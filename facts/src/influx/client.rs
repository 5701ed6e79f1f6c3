//! InfluxDB's HTTP API, 1.x: writes and queries, bounded in time, without redirects. Error texts
//! contain neither credentials nor URLs.

use std::time::Duration;

use fairlead_api::{Code, Failure, error_chain};
use reqwest::{Client as Http, RequestBuilder, Response, Url, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// Deadlines of writes and queries.
const WRITE: Duration = Duration::from_secs(30);
const QUERY: Duration = Duration::from_secs(10);
/// Limit of a query's response, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Limit of an error response, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;
/// Maximum quoted length of an error response, in characters.
const QUOTED: usize = 300;

/// Credentials of the hub.
#[derive(Debug, Clone, Default)]
pub enum InfluxLogin {
    #[default]
    Nobody,
    Password {
        user: String,
        password: SecretString,
    },
    /// `Authorization: Bearer ..`
    Token(SecretString),
}

pub(super) struct Client {
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
        why: String,
    },
    /// Something is invalid; possibly nothing was written.
    Refused {
        why: String,
    },
}

/// The result is unknown; retry.
#[derive(Debug, thiserror::Error)]
pub(super) enum Away {
    #[error("InfluxDB cannot be reached: {0}")]
    Http(String),
    #[error("InfluxDB answered {0}: {1}")]
    Status(u16, String),
}

impl From<reqwest::Error> for Away {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        Away::Http(error_chain(&error))
    }
}

/// A failed query.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(transparent)]
    Away(#[from] Away),
    #[error("InfluxDB does not take the query: {0}")]
    Refused(String),
    #[error("the answer is longer than {MAX_ANSWER} bytes")]
    TooLong,
}

impl Client {
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
        Ok(Client {
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
    /// [`Away`], also for rejected credentials and unknown databases: an operator can fix those.
    pub(super) async fn write(&self, gzip: Vec<u8>) -> Result<Written, Away> {
        let request = self.http.post(self.write.clone()).timeout(WRITE);
        let request = request.header("content-encoding", "gzip").body(gzip);
        let mut answer = self.known(request).send().await?;
        match answer.status().as_u16() {
            200..300 => Ok(Written::All),
            status @ (400 | 413 | 422) => {
                let why = refusal(&mut answer).await?;
                Ok(match partly(&why) {
                    Some(dropped) if status == 400 => Written::Partly { dropped, why },
                    _ => Written::Refused { why },
                })
            }
            status => Err(Away::Status(status, refusal(&mut answer).await?)),
        }
    }

    /// Result of the first statement.
    ///
    /// # Errors
    /// [`AskError`]
    pub(super) async fn ask(&self, query: &str) -> Result<Value, AskError> {
        let request = self.http.post(self.query.clone()).timeout(QUERY);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.body(form(&[("db", &self.database), ("q", query)]));
        let mut answer = self.known(request).send().await.map_err(Away::from)?;
        match answer.status().as_u16() {
            200 => {}
            400 => return Err(AskError::Refused(refusal(&mut answer).await?)),
            status => return Err(Away::Status(status, refusal(&mut answer).await?).into()),
        }
        let body = read(&mut answer, MAX_ANSWER).await?;
        let body = body.ok_or(AskError::TooLong)?;
        let not_json = || Away::Http("its answer is no JSON".to_owned());
        let mut body: Value = serde_json::from_slice(&body).map_err(|_| not_json())?;
        let result = body.pointer_mut("/results/0").ok_or_else(not_json)?.take();
        match result.get("error").and_then(Value::as_str) {
            Some(error) => Err(AskError::Refused(quote(error))),
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
async fn read(answer: &mut Response, most: usize) -> Result<Option<Vec<u8>>, Away> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > most {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The error of a response, truncated.
async fn refusal(answer: &mut Response) -> Result<String, Away> {
    let body = read(answer, MAX_REFUSAL).await?.unwrap_or_default();
    let told: Option<Value> = serde_json::from_slice(&body).ok();
    let told = told.as_ref().and_then(|it| it.get("error")?.as_str());
    Ok(match told {
        Some(text) => quote(text),
        None => quote(&String::from_utf8_lossy(&body)),
    })
}

/// Keeps both ends: the end may contain the number of dropped lines.
fn quote(text: &str) -> String {
    let length = text.chars().count();
    if length <= QUOTED {
        return text.to_owned();
    }
    let half = QUOTED / 2;
    let (begin, end): (String, String) = (
        text.chars().take(half).collect(),
        text.chars().skip(length - half).collect(),
    );
    format!("{begin} .. {end}")
}

/// `partial write: field type conflict: .. dropped=1`: the other lines were written.
fn partly(why: &str) -> Option<u64> {
    let (_, behind) = why.split_once("partial write")?;
    let dropped = behind.rsplit_once("dropped=").map(|(_, number)| number);
    let digits: String = dropped?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|dropped| *dropped > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_in_part_says_how_much_was_not() {
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
    fn a_form_holds_whatever_is_in_a_query() {
        assert_eq!(
            form(&[("db", "a b"), ("q", "SELECT \"é\" & 'x=y'")]),
            "db=a+b&q=SELECT+%22%C3%A9%22+%26+%27x%3Dy%27"
        );
    }
}
