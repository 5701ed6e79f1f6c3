//! Connections to the API server: pooled HTTP/1.1 over TLS. A connection carries one request at a time. An
//! answer dropped before its end closes its connection, so that an abandoned watch ends at once.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::{Code, Failure, error_chain};
use fairlead_exchange::{Answer, Body, BodyError, Client, PreparedRequest, SendError, body};
use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery,
};
use http_body::Body as _;
use tokio::time::timeout;

use crate::credentials::{
    ApiAccess, ApiCredentials, endpoint::Endpoint, error::CredentialsError, location::ApiLocation,
};

pub(crate) mod connect;
mod lines;
mod redirect;
mod token;

pub use lines::RelayedLines;
pub use token::{BadToken, BearerToken};

use connect::{ApiServerConnection, ConnectError, Connector};

/// Parsed once.
static HOST: HeaderName = header::HOST;
static AUTHORIZATION: HeaderName = header::AUTHORIZATION;

/// Idle connections. Fewer than the concurrent requests would mean TLS handshakes.
const MAX_IDLE_CONNECTIONS: usize = 256;
/// Deadline of the agent's own requests.
const OWN_REQUEST_DEADLINE: Duration = Duration::from_secs(15);
/// Maximum answer to the agent's own requests, in bytes: a Secret has at most 1 MiB, and base64 in JSON.
const MAX_OWN_ANSWER_BYTES: usize = 2 * 1024 * 1024;

/// Reason for a missing answer of the API server.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Address or credential cannot be read.
    #[error("no credential")]
    Target(#[from] CredentialsError),
    /// No connection was made.
    #[error("no connection to {host}")]
    Connect {
        /// Host and port of the API server.
        host: String,
        /// Failed step.
        #[source]
        cause: ConnectError,
    },
    /// The connection broke before the answer.
    #[error("the connection broke before the answer")]
    Broken(#[source] BodyError),
    /// The deadline passed.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The path and the base path make no URL.
    #[error("the path cannot follow the API server's base path")]
    Path,
    /// The API server upgraded a request that is no upgrade.
    #[error("the API server upgraded the connection")]
    Upgraded,
    /// A redirect to another place.
    #[error("its target is not a path of the API server")]
    Redirect,
}

/// Headers of a request on its way to the API server.
pub struct RelayedHeaders<'a> {
    /// Headers of its sender, besides the credential.
    pub added: Vec<(&'a HeaderName, &'a HeaderValue)>,
    /// Whether a header of the request is sent.
    pub kept: &'a (dyn Fn(&HeaderName) -> bool + Sync),
}

impl RelayedHeaders<'_> {
    /// All headers of the request.
    fn all() -> Self {
        RelayedHeaders {
            added: Vec::new(),
            kept: &|_| true,
        }
    }

    /// Encodes the head of a request with host and credential.
    fn prepare(
        &self,
        request: Request<Body>,
        endpoint: &Endpoint,
        authorization: Option<&HeaderValue>,
    ) -> Result<PreparedRequest, UpstreamError> {
        let mut added = Vec::with_capacity(self.added.len() + 2);
        added.push((&HOST, &endpoint.host));
        added.extend(authorization.map(|it| (&AUTHORIZATION, it)));
        added.extend(&self.added);
        let kept = |name: &HeaderName| {
            *name != header::HOST && *name != header::AUTHORIZATION && (self.kept)(name)
        };
        PreparedRequest::filtered(request, &added, &kept)
            .map_err(|error| UpstreamError::Broken(error.into()))
    }
}

/// Connection pool to one API server.
pub struct Upstream {
    credentials: ApiCredentials,
    connector: Connector,
    /// Connections of one endpoint. A change of address, CA or client certificate replaces them all.
    client: Mutex<Option<EndpointClient>>,
    /// Connections of the endpoint without client certificate, for requests with another token.
    token_client: Mutex<Option<EndpointClient>>,
}

type EndpointClient = (Arc<Endpoint>, Client<ApiServerConnection>);

impl Upstream {
    /// Makes the pool; it dials with the first request.
    #[must_use]
    pub fn new(credentials: ApiCredentials) -> Self {
        Upstream {
            credentials,
            connector: Connector::new(),
            client: Mutex::default(),
            token_client: Mutex::default(),
        }
    }

    /// Checks that the API server's address and credentials can be read.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`].
    pub async fn check(&self) -> Result<(), CredentialsError> {
        self.credentials.access().await.map(drop)
    }

    /// Address and trust of the API server, for programs that bring a token of their own.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`].
    pub async fn location(&self) -> Result<ApiLocation, CredentialsError> {
        self.credentials.location().await
    }

    /// Sends a request with the agent's own credential. Its URI has only a path and a query. `head`: deadline
    /// of the answer's head.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`]; an answer of any status is no error.
    pub async fn send(
        &self,
        request: Request<Body>,
        head: Option<Duration>,
    ) -> Result<Answer, UpstreamError> {
        self.relay(request, &RelayedHeaders::all(), head).await
    }

    /// Sends a request of somebody else, as [`Upstream::send`]. Its own credential and host are never sent.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`]; an answer of any status is no error.
    pub async fn relay(
        &self,
        request: Request<Body>,
        headers: &RelayedHeaders<'_>,
        head: Option<Duration>,
    ) -> Result<Answer, UpstreamError> {
        let answering = async {
            let access = self.credentials.access().await?;
            self.exchange(request, headers, &access, None).await
        };
        match head {
            None => answering.await,
            Some(limit) => timeout(limit, answering)
                .await
                .map_err(|_| UpstreamError::Timeout(limit))?,
        }
    }

    /// Sends a request of the agent itself, in JSON.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`]; an answer of any status is no error.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), UpstreamError> {
        let mut request = Request::new(body::full(body.unwrap_or_default()));
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
                    let body = body::read(response.into_body(), MAX_OWN_ANSWER_BYTES).await;
                    Ok((status, body.map_err(UpstreamError::Broken)?))
                }
            }
        };
        timeout(OWN_REQUEST_DEADLINE, answering)
            .await
            .map_err(|_| UpstreamError::Timeout(OWN_REQUEST_DEADLINE))?
    }

    /// Sends a request of the agent itself, and returns the answer with its body unread. `token` replaces the agent's own
    /// credential, a client certificate too. `head`: deadline of the answer's head.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`]; an answer of any status is no error.
    pub async fn send_as(
        &self,
        request: Request<Bytes>,
        token: Option<&BearerToken>,
        head: Duration,
    ) -> Result<Response<Body>, UpstreamError> {
        let request = request.map(body::full);
        let answering = async {
            let access = self.credentials.access().await?;
            let token = token.map(BearerToken::header);
            let headers = RelayedHeaders::all();
            self.exchange(request, &headers, &access, token).await
        };
        let answer = timeout(head, answering)
            .await
            .map_err(|_| UpstreamError::Timeout(head))??;
        match answer {
            Answer::Response(response) => Ok(response),
            Answer::Upgraded(..) => Err(UpstreamError::Upgraded),
        }
    }

    /// Sends a request with the agent's own credential, or with the other one.
    async fn exchange(
        &self,
        mut request: Request<Body>,
        headers: &RelayedHeaders<'_>,
        access: &Arc<ApiAccess>,
        other: Option<&HeaderValue>,
    ) -> Result<Answer, UpstreamError> {
        let (endpoint, clients, authorization) = match other {
            None => (
                &access.endpoint,
                &self.client,
                access.authorization.as_ref(),
            ),
            Some(_) => (&access.without_certificate, &self.token_client, other),
        };
        if let Some(whole) = address(request.uri(), endpoint)? {
            *request.uri_mut() = whole;
        }
        let requested = request.uri().clone();
        let request = headers.prepare(request, endpoint, authorization)?;
        let connect = || self.connector.connect(endpoint);
        let sent = client(clients, endpoint)
            .send_prepared(request, connect)
            .await;
        let mut answer = sent.map_err(|error| failed(error, endpoint))?;
        if let Answer::Response(response) = &mut answer {
            redirect::localize(response, endpoint, &requested)?;
            if response.status() == StatusCode::UNAUTHORIZED && other.is_none() {
                self.credentials.report_unauthorized(access).await;
            }
        }
        Ok(answer)
    }
}

fn failed(error: SendError<ConnectError>, endpoint: &Endpoint) -> UpstreamError {
    match error {
        SendError::Connect(cause) => UpstreamError::Connect {
            host: endpoint.host.to_str().unwrap_or_default().to_owned(),
            cause,
        },
        SendError::Broken(cause) | SendError::Request(cause) => UpstreamError::Broken(cause),
    }
}

/// Pool of an endpoint; the pool of another endpoint is dropped.
fn client(
    clients: &Mutex<Option<EndpointClient>>,
    endpoint: &Arc<Endpoint>,
) -> Client<ApiServerConnection> {
    let mut current = clients.lock().unwrap_or_else(PoisonError::into_inner);
    match &*current {
        Some((of, client)) if Arc::ptr_eq(of, endpoint) => client.clone(),
        _ => {
            let fresh = Client::new(MAX_IDLE_CONNECTIONS);
            *current = Some((endpoint.clone(), fresh.clone()));
            fresh
        }
    }
}

/// The target with the API server's base path before it; `None` without a base path.
fn address(target: &Uri, endpoint: &Endpoint) -> Result<Option<Uri>, UpstreamError> {
    if endpoint.base_path.is_empty() {
        return Ok(None);
    }
    let path = target.path_and_query();
    let path = path.map_or("/", PathAndQuery::as_str);
    let whole = format!("{}{path}", endpoint.base_path).parse::<PathAndQuery>();
    Ok(Some(Uri::from(whole.map_err(|_| UpstreamError::Path)?)))
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        let cause = error_chain(&error);
        match error {
            UpstreamError::Target(error) => Failure::because(Code::ApiUnreachable, error),
            UpstreamError::Timeout(_) => Failure::because(Code::ApiTimeout, cause),
            UpstreamError::Path => Failure::because(Code::BadPath, cause),
            UpstreamError::Redirect => Failure::because(Code::RedirectRefused, cause),
            UpstreamError::Connect { .. } | UpstreamError::Broken(_) | UpstreamError::Upgraded => {
                Failure::because(Code::ApiUnreachable, cause)
            }
        }
    }
}
