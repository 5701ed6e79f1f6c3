//! Requests to a named service by its host. The front has ended TLS; the request goes as HTTP/1.1 over a connection to the
//! target, one connection for each request.

use std::{convert::Infallible, future::ready, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, error_chain};
use fairlead_exchange::{
    Answer, Body, Client, OnUpgrade, SendError, SocketTransport, Upgraded, frames::Protocol,
};
use fairlead_protocols::Farewell;
use fairlead_seam::{NamedService, ServiceEntry};
use http::{HeaderValue, Request, Response, Uri, Version, header, request, uri::PathAndQuery};
use tokio::time::timeout;

use crate::{
    front::{
        address::AddressForm,
        authenticate::authenticate,
        authorize::{PermittedRequest, authorize, authorize_service, check_client},
        forward::forward,
        headers,
        limit::limit,
        record::Inbound,
        route::ClusterRequest,
        tcp::TcpRequest,
        transfer::{UploadProgress, recorded_upload},
        upgrade::{self, Joined, UpgradeEnds},
    },
    http::body,
    hub::Hub,
};

/// Forwards a request to the target of a service.
///
/// # Errors
/// `FL-1427` for a client from elsewhere, `FL-1422` if the connection breaks before an answer, `FL-1405` without an answer in
/// time, those of the token if the service needs one, and those of a TCP connection.
pub(crate) async fn forward_to_service(
    hub: &Arc<Hub>,
    inbound: Box<Inbound>,
    service: Arc<NamedService>,
) -> Result<Response<Body>, Failure> {
    let needs_caller = matches!(service.entry, ServiceEntry::HttpHost { callers: true, .. });
    let Inbound {
        mut request,
        connection,
        record,
    } = *inbound;
    let token = match needs_caller {
        true => headers::take_token(request.headers_mut()),
        false => None,
    };
    // Until the target is connected: one address gets an even share of the requests that wait.
    let waiting = record.strangers().requests.take(1);
    let waiting = waiting.ok_or(Code::TooManyRequests)?;
    let mut connect = Request::new(body::empty());
    let token = token.map(|it| (header::AUTHORIZATION, it));
    connect.headers_mut().extend(token);
    let connect = Inbound {
        request: connect,
        connection: connection.clone(),
        record: record.clone(),
    };
    let target = connect_target(hub, &service, connect, needs_caller).await?;
    drop(waiting);
    let wanted = headers::requested_upgrade(&request);
    let user = wanted.is_some().then(|| OnUpgrade::take(&mut request));
    let (mut head, upload) = request.into_parts();
    prepare(&mut head, &connection.peer.ip().to_canonical().to_string())?;
    match &wanted {
        Some(protocol) => headers::set_upgrade(&mut head.headers, protocol),
        None => {
            let close = HeaderValue::from_static("close");
            head.headers.insert(header::CONNECTION, close);
        }
    }
    let query = head.uri.query().map(str::to_owned);
    let (upload, progress) = recorded_upload(upload, &record);
    let request = Request::from_parts(head, upload);
    match exchange(target, request, &progress, hub.head_timeout).await? {
        Answer::Response(mut response) => {
            headers::strip_service_answer(response.headers_mut(), false);
            *response.version_mut() = Version::HTTP_11;
            Ok(response)
        }
        Answer::Upgraded(mut head, agent) => {
            let ends = user.zip(wanted);
            let (user, protocol) = ends.ok_or_else(|| {
                Failure::because(Code::TcpBroke, "the target upgraded without a request")
            })?;
            headers::strip_service_answer(head.headers_mut(), true);
            let farewell = Farewell::of(record.kind(), query.as_deref(), &protocol, head.headers());
            let joined = Joined::Protocol(Protocol::of(&protocol));
            let ends = UpgradeEnds {
                client: user,
                agent,
            };
            upgrade::join(
                hub,
                record,
                connection.reset,
                ends,
                joined,
                (farewell, None),
            );
            Ok(head.map(|()| body::empty()))
        }
    }
}

/// Connects to the target of a service, as the sender of this request.
async fn connect_target(
    hub: &Arc<Hub>,
    service: &Arc<NamedService>,
    inbound: Inbound,
    needs_caller: bool,
) -> Result<Upgraded, Failure> {
    let (tcp, connected) = TcpRequest::of_exchange(&service.target)?;
    let path = PathAndQuery::try_from(service.target.path(&service.cluster));
    let request = ClusterRequest {
        inbound: Box::new(inbound),
        cluster: service.cluster.clone(),
        path: path.map_err(|error| Failure::because(Code::Internal, error))?,
        form: AddressForm::Path,
        as_user: None,
        tcp: Some(Box::new(tcp)),
    };
    let permitted = permit(hub, service, request, needs_caller).await?;
    forward(hub, permitted).await?;
    // The sender is dropped only if the answer was no connection, which is an error above.
    connected.await.map_err(|_| Code::Internal.into())
}

/// The permit of the service itself, or that of the caller whose token the service needs.
async fn permit(
    hub: &Arc<Hub>,
    service: &Arc<NamedService>,
    request: ClusterRequest,
    needs_caller: bool,
) -> Result<PermittedRequest, Failure> {
    if !needs_caller {
        return authorize_service(hub, service, request).await;
    }
    check_client(service, request.inbound.connection.peer)?;
    let authenticated = authenticate(hub, request).await?;
    let authenticated = limit(hub, authenticated)?;
    let permitted = authorize(hub, authenticated).await?;
    hub.services.check(service)?;
    Ok(permitted)
}

/// Makes the head that the target gets.
fn prepare(head: &mut request::Parts, client: &str) -> Result<(), Failure> {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|error| Failure::because(Code::BadRequest, error))
    };
    // HTTP/2 has the host in the target of the request.
    let host = match head.uri.authority() {
        Some(authority) => Some(value(authority.as_str())?),
        None => head.headers.get(header::HOST).cloned(),
    };
    let path = head.uri.path_and_query().cloned();
    head.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    head.version = Version::HTTP_11;
    head.extensions.clear();
    headers::strip_for_service(&mut head.headers);
    headers::describe_client(&mut head.headers, value(client)?, host);
    Ok(())
}

/// Sends the request, and waits for the head of the answer. The deadline restarts while the upload moves.
async fn exchange(
    target: Upgraded,
    request: Request<Body>,
    progress: &UploadProgress,
    head_timeout: Duration,
) -> Result<Answer, Failure> {
    let client = Client::new(0);
    let connect = || ready(Ok::<_, Infallible>(SocketTransport::new(target)));
    let mut sending = std::pin::pin!(client.send(request, connect));
    let mut seen = progress.frames();
    loop {
        let Ok(answered) = timeout(head_timeout, sending.as_mut()).await else {
            let before = std::mem::replace(&mut seen, progress.frames());
            if before != seen {
                continue;
            }
            let cause = format!(
                "nothing from the target within {} s",
                head_timeout.as_secs()
            );
            return Err(Failure::because(Code::Timeout, cause));
        };
        return answered.map_err(|error| match error {
            SendError::Connect(never) => match never {},
            SendError::Broken(cause) => {
                Failure::because(Code::TcpBroke, error_chain(cause.as_ref()))
            }
            SendError::Request(cause) => Failure::because(
                Code::BadRequest,
                format_args!("its body broke off: {cause}"),
            ),
        });
    }
}
