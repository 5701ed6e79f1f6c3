//! Talks to a hub's API: one request, one connection, one deadline.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::{Code, Failure, HubUrl, Reason};
use fairlead_dialer::ProxyRules;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use tokio_rustls::TlsConnector;

use crate::{environment::Environment, files, login};

const DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is taken, in bytes: some 100,000 clusters.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

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
        let body =
            serde_json::to_vec(body).map_err(|error| Failure::because(Code::Internal, error))?;
        read(&self.send(Method::POST, path, body.into()).await?)
    }

    /// None where there is no such thing, or none for us to see.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if matches!(failure.code, Code::NotFound | Code::NoSuchCluster) => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Sends JSON; what the hub answers with is not looked at.
    pub(crate) async fn tell<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: &B,
    ) -> Result<(), Failure> {
        let body =
            serde_json::to_vec(body).map_err(|error| Failure::because(Code::Internal, error))?;
        self.send(method, path, body.into()).await.map(drop)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.send(Method::DELETE, path, Bytes::new())
            .await
            .map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let exchange = tokio::time::timeout(DEADLINE, self.exchange(method, path, body));
        let (status, body) = match exchange.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.unreachable(&chain(error.as_ref()))),
            Err(_) => {
                return Err(self.unreachable(&format!("no answer within {} s", DEADLINE.as_secs())));
            }
        };
        if status.is_success() {
            Ok(body)
        } else {
            Err(refusal(status, &body))
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
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
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.url.authority())
            .header(
                header::AUTHORIZATION,
                format!("Bearer {}", self.token.expose_secret()),
            )
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(body))?;
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
            Ok((head.status, body))
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

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let told = |error| {
        Failure::because(
            Code::HubUnreachable,
            format_args!("its answer is not understood: {error}"),
        )
    };
    serde_json::from_slice(body).map_err(told)
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
