//! Talks to a hub's API: one request, one connection, one deadline.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::{Code, Failure, HubUrl, Reason};
use fairlead_dialer::ProxyRules;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_rustls::TlsConnector;

use crate::{environment::Environment, files, login};

const DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is taken, in bytes: some 100,000 clusters.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A document as the hub has it, and the tag that tells whether it still has it so.
#[derive(Debug, Clone)]
pub(crate) struct Tagged {
    pub(crate) value: Value,
    pub(crate) tag: String,
}

/// What must hold when a change is made: else somebody else was faster, and nothing happens (`FL-4114`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnlyIf<'a> {
    /// There is no such thing yet.
    New,
    /// It is still what was read with this tag.
    Same(&'a str),
}

impl OnlyIf<'_> {
    fn header(self) -> (HeaderName, String) {
        match self {
            OnlyIf::New => (header::IF_NONE_MATCH, "*".to_owned()),
            OnlyIf::Same(tag) => (header::IF_MATCH, tag.to_owned()),
        }
    }
}

/// A hub, and who we are there.
#[derive(Clone)]
pub(crate) struct HubClient {
    url: HubUrl,
    token: SecretString,
    ca: Option<String>,
    tls: Arc<rustls::ClientConfig>,
    proxy: ProxyRules,
}

impl HubClient {
    /// The hub of `FAIRLEAD_URL`, `FAIRLEAD_TOKEN` (or `FAIRLEAD_TOKEN_FILE`) and `FAIRLEAD_CA_FILE`, each of which wins
    /// over what `fairlead login` remembers.
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
            (None, Some(file)) => Some(files::read(file.as_ref())?.trim().into()),
            (None, None) => None,
        };
        let ca = environment
            .get("FAIRLEAD_CA_FILE")
            .map(|file| files::read(file.as_ref()))
            .transpose()?;
        let known = login::remembered(environment)?.remove(asked.as_ref());
        let url = asked.or_else(|| known.as_ref().map(|hub| hub.url.clone()));
        let url = url.ok_or(Code::NotLoggedIn)?;
        let token = token
            .or_else(|| known.as_ref().map(|hub| hub.token.clone()))
            .ok_or(Code::NotLoggedIn)?;
        let ca = ca.or_else(|| known.and_then(|hub| hub.ca));
        HubClient::new(url, token, ca, environment.proxy()?)
    }

    /// A hub whose front is trusted by the system's roots or by `ca` (PEM).
    pub(crate) fn new(
        url: HubUrl,
        token: SecretString,
        ca: Option<String>,
        proxy: ProxyRules,
    ) -> Result<Self, Failure> {
        let tls = fairlead_certs::outer_client(ca.as_deref(), None)?;
        Ok(HubClient {
            url,
            token,
            ca,
            tls,
            proxy,
        })
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// The CA that was needed to reach this hub.
    pub(crate) fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.send(Method::GET, path, Bytes::new()).await?)
    }

    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Failure> {
        read(&self.send(Method::POST, path, written(body)?).await?)
    }

    /// None where there is no such thing, or none for us to see.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        if_there(self.get(path).await)
    }

    /// As [`HubClient::find`], with its tag.
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

    /// Changes a document where `only_if` holds, and gives what came of it.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        only_if: OnlyIf<'_>,
    ) -> Result<Value, Failure> {
        let demand = Some(only_if.header());
        let (_, body) = self.ask(method, path, demand, written(body)?).await?;
        read(&body)
    }

    /// Sends JSON; what the hub answers with is not looked at.
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
        demand: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), Failure> {
        let exchange = tokio::time::timeout(DEADLINE, self.exchange(method, path, demand, body));
        let (head, body) = match exchange.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.unreachable(&chain(error.as_ref()))),
            Err(_) => {
                return Err(self.unreachable(&format!("no answer within {} s", DEADLINE.as_secs())));
            }
        };
        if head.status.is_success() {
            Ok((head.headers, body))
        } else {
            Err(refusal(head.status, &body))
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        demand: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(http::response::Parts, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let connected = self.proxy.connect(&self.url, DEADLINE).await?;
        let name = ServerName::try_from(self.url.host().to_owned())?;
        let stream = TlsConnector::from(self.tls.clone())
            .connect(name, connected.tcp)
            .await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
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
        if let Some((name, value)) = demand {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body))?;
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
            Ok((head, body))
        };
        tokio::pin!(connection);
        tokio::pin!(answer);
        // The connection moves the bytes; whichever of the two ends first has the result or the reason.
        tokio::select! {
            biased;
            result = &mut answer => result,
            ended = &mut connection => { ended?; answer.await }
        }
    }

    fn unreachable(&self, cause: &str) -> Failure {
        Failure::because(Code::HubUnreachable, format_args!("{}: {cause}", self.url))
    }
}

/// An error with its sources, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
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

/// That there is no such thing is an answer, too.
fn if_there<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(failure) if matches!(failure.code, Code::NotFound | Code::NoSuchCluster) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The failure that the hub tells; of a stranger's answer at least the HTTP status.
fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let told = serde_json::from_slice::<Reason>(body).map(Failure::from);
    told.unwrap_or_else(|_| {
        Failure::because(
            Code::HubUnreachable,
            format_args!("what answered is no hub, it says {status}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_hub_reads_back() {
        let failure = Failure::because(Code::InUse, "3 clusters");
        let body = Reason::from(&failure).to_json();
        assert_eq!(refusal(StatusCode::CONFLICT, &body), failure);
    }

    #[test]
    fn a_stranger_is_told_as_one() {
        assert_eq!(
            refusal(StatusCode::BAD_GATEWAY, b"<html>").code,
            Code::HubUnreachable
        );
    }
}
