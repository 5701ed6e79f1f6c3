//! Client of a hub's API. Each request has one deadline; consecutive requests share a connection.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::{Code, Failure, HubUrl, Reason, error_chain};
use fairlead_dialer::{
    DialError, ProxyRules,
    dial::{compare_clocks, outer_error},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_rustls::TlsConnector;

use crate::{environment::Environment, files, logins};

const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline of the request for the hub's time, after a certificate that is not valid now.
const CLOCK_DEADLINE: Duration = Duration::from_secs(5);
/// Limit of a response body in bytes, enough for some 100,000 clusters.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// A resource with its ETag.
#[derive(Debug, Clone)]
pub(crate) struct Tagged {
    pub(crate) value: Value,
    pub(crate) tag: String,
}

/// Precondition of a change; the hub refuses the change with `FL-4114` if it does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Precondition<'a> {
    /// The resource does not exist.
    Absent,
    /// The resource still has this ETag.
    Unchanged(&'a str),
}

impl Precondition<'_> {
    fn header(self) -> (HeaderName, String) {
        match self {
            Precondition::Absent => (header::IF_NONE_MATCH, "*".to_owned()),
            Precondition::Unchanged(tag) => (header::IF_MATCH, tag.to_owned()),
        }
    }
}

/// Client of one hub with the caller's token.
#[derive(Clone)]
pub(crate) struct HubClient {
    url: HubUrl,
    token: SecretString,
    ca: Option<String>,
    tls: Arc<rustls::ClientConfig>,
    /// TLS configuration that ignores validity periods, only for reading the hub's time.
    tls_at_any_time: Arc<rustls::ClientConfig>,
    proxy: ProxyRules,
    /// Next step for a rejected token, which depends on the token's origin.
    new_token_step: Option<Arc<str>>,
    /// Idle connection for the next request.
    kept: Arc<Mutex<Option<Connection>>>,
}

type Connection = http1::SendRequest<Full<Bytes>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl HubClient {
    /// Client for the hub of `FAIRLEAD_URL`, `FAIRLEAD_TOKEN` (or `FAIRLEAD_TOKEN_FILE`) and `FAIRLEAD_CA_FILE`. Each variable
    /// takes precedence over the stored login.
    pub(crate) fn of(environment: &Environment) -> Result<Self, Failure> {
        let asked = environment
            .get("FAIRLEAD_URL")
            .map(str::parse::<HubUrl>)
            .transpose();
        let asked = asked.map_err(|error| {
            Failure::because(Code::BadConfig, format_args!("FAIRLEAD_URL: {error}"))
        })?;
        let token = match (
            environment.get("FAIRLEAD_TOKEN"),
            environment.get("FAIRLEAD_TOKEN_FILE"),
        ) {
            (Some(token), _) => Some(SecretString::from(token)),
            (None, Some(file)) => Some(files::token(file.as_ref())?),
            (None, None) => None,
        };
        let ca = environment
            .get("FAIRLEAD_CA_FILE")
            .map(|file| files::read(file.as_ref()))
            .transpose()?;
        let known = logins::remembered(environment)?.remove(asked.as_ref());
        let url = asked.or_else(|| known.as_ref().map(|hub| hub.url.clone()));
        let url = url.ok_or(Code::NotLoggedIn)?;
        let token = token
            .or_else(|| known.as_ref().map(|hub| hub.token.clone()))
            .ok_or_else(|| {
                Failure::with_cause(Code::NotLoggedIn, format!("no token for {url} is known"))
            })?;
        let step = logins::new_token_step(environment, &url, known.as_ref());
        let ca = ca.or_else(|| known.and_then(|hub| hub.ca));
        let hub = HubClient::new(url, token, ca, environment.proxy()?)?;
        Ok(HubClient {
            new_token_step: Some(step.into()),
            ..hub
        })
    }

    /// Client for a hub with a certificate of the system's CAs or of `ca` (PEM).
    pub(crate) fn new(
        url: HubUrl,
        token: SecretString,
        ca: Option<String>,
        proxy: ProxyRules,
    ) -> Result<Self, Failure> {
        if HeaderValue::from_str(token.expose_secret()).is_err() {
            let detail = "the token has characters that no token has";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        let tls = fairlead_certs::outer_client(ca.as_deref(), None)?;
        let tls_at_any_time = fairlead_certs::outer_client_at_any_time(ca.as_deref(), None)?;
        Ok(HubClient {
            url,
            token,
            ca,
            tls,
            tls_at_any_time,
            proxy,
            new_token_step: None,
            kept: Arc::default(),
        })
    }

    pub(crate) fn url(&self) -> &HubUrl {
        &self.url
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// Closes the idle connection, before a long pause.
    pub(crate) fn close_idle(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// CA of the hub's certificate, if it is not one of the system's.
    pub(crate) fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.send(Method::GET, path, Bytes::new()).await?)
    }

    /// Gets a text response.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Failure> {
        let body = self.send(Method::GET, path, Bytes::new()).await?;
        String::from_utf8(body.to_vec()).map_err(|_| not_understood("it is no text"))
    }

    /// Gets one page of a list, and the path of the next page (RFC 8288).
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<(T, Option<String>), Failure> {
        let (headers, body) = self.ask(Method::GET, path, None, Bytes::new()).await?;
        let link = headers.get(header::LINK).and_then(|it| it.to_str().ok());
        let next = link.and_then(|it| it.strip_prefix('<')?.strip_suffix(">; rel=\"next\""));
        let next = next.filter(|it| it.starts_with('/'));
        Ok((read(&body)?, next.map(str::to_owned)))
    }

    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Failure> {
        read(&self.send(Method::POST, path, written(body)?).await?)
    }

    pub(crate) async fn put<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Failure> {
        read(&self.send(Method::PUT, path, written(body)?).await?)
    }

    /// Gets a resource; `None` if it does not exist or is not visible.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        if_there(self.get(path).await)
    }

    /// Gets a resource with its ETag; `None` if it does not exist or is not visible.
    pub(crate) async fn tagged(&self, path: &str) -> Result<Option<Tagged>, Failure> {
        let Some((headers, body)) =
            if_there(self.ask(Method::GET, path, None, Bytes::new()).await)?
        else {
            return Ok(None);
        };
        let tag = headers
            .get(header::ETAG)
            .and_then(|tag| tag.to_str().ok())
            .ok_or_else(|| not_understood("it has no ETag"))?;
        Ok(Some(Tagged {
            value: read(&body)?,
            tag: tag.to_owned(),
        }))
    }

    /// Changes a resource under a precondition, and returns the new state.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        precondition: Precondition<'_>,
    ) -> Result<Value, Failure> {
        let precondition = Some(precondition.header());
        let (_, body) = self.ask(method, path, precondition, written(body)?).await?;
        read(&body)
    }

    /// Sends JSON and ignores the response body.
    pub(crate) async fn tell<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: &B,
    ) -> Result<(), Failure> {
        self.send(method, path, written(body)?).await.map(drop)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.send(Method::DELETE, path, Bytes::new())
            .await
            .map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        self.ask(method, path, None, body)
            .await
            .map(|(_, body)| body)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        precondition: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), Failure> {
        let exchange = tokio::time::timeout(
            REQUEST_DEADLINE,
            self.exchange(method, path, precondition, body),
        );
        let (head, body) = match exchange.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.not_asked(error.as_ref())),
            Err(_) => {
                return Err(self.unreachable(&format!(
                    "no answer within {} s",
                    REQUEST_DEADLINE.as_secs()
                )));
            }
        };
        if head.status.is_success() {
            Ok((head.headers, body))
        } else {
            let failure = refusal(head.status, &body);
            Err(match &self.new_token_step {
                Some(step) if is_of_token(failure.code) => failure.next(step.to_string()),
                _ => failure,
            })
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        precondition: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(http::response::Parts, Bytes), BoxError> {
        let safe = method == Method::GET;
        let request = self.request(method, path, precondition, body)?;
        let answered = match self.take_kept() {
            None => None,
            Some(kept) => match kept_exchange(kept, request.clone()).await {
                Ok(answered) => Some(answered),
                // The hub may have closed the idle connection. Unsent and safe requests are repeated.
                Err((sent, _)) if !sent || safe => None,
                Err((_, error)) => return Err(error),
            },
        };
        let (head, body, connection) = match answered {
            Some(answered) => answered,
            None => {
                let mut connection = self.connect().await?;
                let answer = connection.send_request(request).await?;
                let (head, body) = read_whole(answer).await?;
                (head, body, connection)
            }
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok((head, body))
    }

    fn take_kept(&self) -> Option<Connection> {
        let kept = self.kept.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|connection| !connection.is_closed())
    }

    async fn connect(&self) -> Result<Connection, BoxError> {
        let connected = self.proxy.connect(&self.url, REQUEST_DEADLINE).await?;
        let name = ServerName::try_from(self.url.host().to_owned())?;
        let stream = TlsConnector::from(self.tls.clone())
            .connect(name, connected.tcp)
            .await;
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                let (error, any_time) = (outer_error(&error), &self.tls_at_any_time);
                let compared =
                    compare_clocks(error, &self.proxy, &self.url, any_time, CLOCK_DEADLINE);
                return Err(compared.await.into());
            }
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The task ends with its sender; errors reach the pending request.
        drop(tokio::spawn(connection));
        Ok(sender)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        precondition: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> http::Result<Request<Full<Bytes>>> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.url.authority())
            .header(
                header::AUTHORIZATION,
                format!("Bearer {}", self.token.expose_secret()),
            )
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, kind);
        if let Some((name, value)) = precondition {
            request = request.header(name, value);
        }
        request.body(Full::new(body))
    }

    fn not_asked(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        match error.downcast_ref::<DialError>() {
            Some(error) if decides(error.code) => {
                let detail = format_args!("{}: {}", self.url, error.cause);
                let untrusted = (error.code == Code::DialTls).then(|| UNTRUSTED.into());
                Failure {
                    next: error.next.clone().or(untrusted),
                    ..Failure::because(error.code, detail)
                }
            }
            _ => self.unreachable(&error_chain(error)),
        }
    }

    fn unreachable(&self, cause: &str) -> Failure {
        Failure::because(Code::HubUnreachable, format_args!("{}: {cause}", self.url))
    }
}

/// Next step for a hub certificate that is not trusted.
const UNTRUSTED: &str = "Set FAIRLEAD_CA_FILE to the CA of the hub's front in PEM, or log in again with `--ca-file`; a hub with a CA of its own \
    has it in `front-ca.pem` of its data folder.";

/// True for codes that are more specific than [`Code::HubUnreachable`].
const fn decides(code: Code) -> bool {
    matches!(
        code,
        Code::DialTls | Code::DialClock | Code::DialProxy | Code::DialProxyAuth
    )
}

const fn is_of_token(code: Code) -> bool {
    matches!(code, Code::NoToken | Code::BadToken | Code::TokenExpired)
}

type Answered = (http::response::Parts, Bytes, Connection);

/// Sends a request over an idle connection.
///
/// # Errors
/// The error, and whether the request may have been sent.
async fn kept_exchange(
    mut connection: Connection,
    request: Request<Full<Bytes>>,
) -> Result<Answered, (bool, BoxError)> {
    let ready = connection.ready().await;
    ready.map_err(|error| (false, error.into()))?;
    let answer = connection.try_send_request(request).await;
    let answer = answer.map_err(|mut error| {
        let sent = error.take_message().is_none();
        (sent, error.into_error().into())
    })?;
    let read = read_whole(answer).await;
    let (head, body) = read.map_err(|error| (true, error))?;
    Ok((head, body, connection))
}

async fn read_whole(
    answer: http::Response<Incoming>,
) -> Result<(http::response::Parts, Bytes), BoxError> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_RESPONSE_BYTES)
        .collect()
        .await?
        .to_bytes();
    Ok((head, body))
}

fn written<B: Serialize>(body: &B) -> Result<Bytes, Failure> {
    let body = serde_json::to_vec(body).map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(body.into())
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(not_understood)
}

fn not_understood(why: impl std::fmt::Display) -> Failure {
    Failure::because(
        Code::HubUnreachable,
        format_args!("its answer is not understood: {why}"),
    )
}

/// Converts a failure for a missing resource into `None`.
fn if_there<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(failure) if matches!(failure.code, Code::NotFound | Code::NoSuchCluster) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Failure in the response of the hub, or the HTTP status if the response is not from a hub.
fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let told = serde_json::from_slice::<Reason>(body).map(Failure::from);
    told.unwrap_or_else(|_| {
        Failure::because(
            Code::HubUnreachable,
            format_args!("the server is not a hub; its response has status {status}"),
        )
    })
}
