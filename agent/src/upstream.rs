//! The way to the API server: pooled HTTP/1.1 connections over TLS. A connection carries one request at a time; what is
//! dropped before its answer ended takes its connection with it, so that a watch nobody reads ends at once.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::{Code, Failure, error_chain};
use fairlead_dialer::{
    Answer, Body, BodyError,
    exchange::{Client, SendError},
};
use http::{HeaderMap, Method, Request, StatusCode, Uri, header, uri::PathAndQuery};
use http_body::Body as _;
use tokio::time::timeout;

use crate::{
    body,
    target::{ApiAccess, ApiCredentials, endpoint::Endpoint, error::TargetError},
};

mod connect;

use connect::{ConnectError, Connection, Connector};

/// Connections that wait for their next request. Fewer than there are requests at a time would mean TLS handshakes.
const MAX_IDLE_CONNECTIONS: usize = 256;
/// For what the agent itself asks.
const OWN_REQUEST_DEADLINE: Duration = Duration::from_secs(15);
/// The largest answer to what the agent itself asks, in bytes: a Secret is at most 1 MiB, and base64 in JSON.
const MAX_OWN_ANSWER_BYTES: usize = 2 * 1024 * 1024;

/// Why the API server gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("no credential")]
    Target(#[from] TargetError),
    #[error("no connection to {host}")]
    Connect {
        host: String,
        #[source]
        cause: ConnectError,
    },
    #[error("the connection broke before the answer")]
    Broken(#[source] BodyError),
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the path cannot be put behind the API server's own")]
    Path,
}

/// The pooled way to one API server.
pub(crate) struct Upstream {
    credentials: ApiCredentials,
    connector: Connector,
    /// The connections, of one endpoint: those of an older address, CA or client certificate go with it.
    client: Mutex<Option<(Arc<Endpoint>, Client<Connection>)>>,
}

impl Upstream {
    pub(crate) fn new(credentials: ApiCredentials) -> Self {
        Upstream {
            credentials,
            connector: Connector::new(),
            client: Mutex::default(),
        }
    }

    /// Whether the API server's address and credentials can be had at all.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(crate) async fn check(&self) -> Result<(), TargetError> {
        self.credentials.access().await.map(drop)
    }

    /// Sends a request, whose URI has a path and a query only, with the agent's own credential. `head`: how long the
    /// answer's head may take.
    ///
    /// # Errors
    /// [`UpstreamError`]; an answer is none, whatever its status.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
        head: Option<Duration>,
    ) -> Result<Answer, UpstreamError> {
        let answering = self.send_unbounded(request);
        match head {
            None => answering.await,
            Some(limit) => timeout(limit, answering)
                .await
                .map_err(|_| UpstreamError::Timeout(limit))?,
        }
    }

    /// What the agent itself asks, in JSON.
    ///
    /// # Errors
    /// [`UpstreamError`]; an answer is none, whatever its status.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), UpstreamError> {
        let mut request = Request::new(body::text(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| UpstreamError::Path)?;
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json.clone());
        if !request.body().is_end_stream() {
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        let answering = async {
            match self.send(request, None).await? {
                Answer::Upgraded(head, _) => Ok((head.status(), Bytes::new())),
                Answer::Response(response) => {
                    let status = response.status();
                    let body = body::whole(response.into_body(), MAX_OWN_ANSWER_BYTES).await;
                    Ok((status, body.map_err(UpstreamError::Broken)?))
                }
            }
        };
        timeout(OWN_REQUEST_DEADLINE, answering)
            .await
            .map_err(|_| UpstreamError::Timeout(OWN_REQUEST_DEADLINE))?
    }

    async fn send_unbounded(&self, mut request: Request<Body>) -> Result<Answer, UpstreamError> {
        let access = self.credentials.access().await?;
        address(&mut request, &access)?;
        let endpoint = &access.endpoint;
        let connect = || self.connector.connect(endpoint);
        let sent = self.client(endpoint).send(request, connect).await;
        let answer = sent.map_err(|error| match error {
            SendError::Connect(cause) => UpstreamError::Connect {
                host: endpoint.host.to_str().unwrap_or_default().to_owned(),
                cause,
            },
            SendError::Broken(cause) | SendError::Request(cause) => UpstreamError::Broken(cause),
        })?;
        if let Answer::Response(response) = &answer
            && response.status() == StatusCode::UNAUTHORIZED
        {
            self.credentials.report_unauthorized(&access).await;
        }
        Ok(answer)
    }

    fn client(&self, endpoint: &Arc<Endpoint>) -> Client<Connection> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        match &*client {
            Some((of, client)) if Arc::ptr_eq(of, endpoint) => client.clone(),
            _ => {
                let fresh = Client::new(MAX_IDLE_CONNECTIONS);
                *client = Some((endpoint.clone(), fresh.clone()));
                fresh
            }
        }
    }
}

/// Puts credential, host and the API server's base path into a request.
fn address(request: &mut Request<Body>, access: &ApiAccess) -> Result<(), UpstreamError> {
    let endpoint = &access.endpoint;
    if !endpoint.base_path.is_empty() {
        let path = request.uri().path_and_query();
        let path = path.map_or("/", PathAndQuery::as_str);
        let whole = format!("{}{path}", endpoint.base_path).parse::<PathAndQuery>();
        *request.uri_mut() = Uri::from(whole.map_err(|_| UpstreamError::Path)?);
    }
    let headers: &mut HeaderMap = request.headers_mut();
    headers.insert(header::HOST, endpoint.host.clone());
    match &access.authorization {
        Some(authorization) => headers.insert(header::AUTHORIZATION, authorization.clone()),
        None => headers.remove(header::AUTHORIZATION),
    };
    Ok(())
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        let cause = error_chain(&error);
        match error {
            UpstreamError::Target(error) => Failure::because(Code::ApiUnreachable, error),
            UpstreamError::Timeout(_) => Failure::because(Code::ApiTimeout, cause),
            UpstreamError::Path => Failure::because(Code::BadPath, cause),
            UpstreamError::Connect { .. } | UpstreamError::Broken(_) => {
                Failure::because(Code::ApiUnreachable, cause)
            }
        }
    }
}
