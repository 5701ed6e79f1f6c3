//! Requests to a named service by its host. The front has ended TLS; the request goes as HTTP/1.1 over a connection to the
//! target. Idle connections serve the next reads.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, error_chain};
use fairlead_exchange::{
    Answer, Body, Client, OnUpgrade, SendError, SocketTransport, Upgraded, frames::Protocol,
};
use fairlead_protocols::Farewell;
use fairlead_seam::{NamedService, ServiceEntry};
use http::{
    HeaderMap, HeaderValue, Request, Response, Uri, Version, header, request, uri::PathAndQuery,
};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    agents::wait_budget::{self, Place},
    front::{
        address::AddressForm,
        authenticate::authenticate,
        authorize::{PermittedRequest, authorize, authorize_service, check_client},
        forward::{forward_to, place},
        headers,
        limit::limit,
        record::{Inbound, RequestRecord},
        route::ClusterRequest,
        socket::ResetOnDrop,
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
    // Until a session is found: one address gets an even share of the requests that wait.
    let waiting = waiting(&record)?;
    let mut connect = Request::new(body::empty());
    let token = token.map(|it| (header::AUTHORIZATION, it));
    connect.headers_mut().extend(token);
    let connect = Inbound {
        request: connect,
        connection: connection.clone(),
        record: record.clone(),
    };
    let (connect, connected) = connect_request(&service, connect)?;
    let permitted = permit(hub, &service, connect, needs_caller).await?;
    let budget = wait_budget::wait_budget(&permitted.routed.path);
    let place = place(hub, &record, &service.cluster, budget).await?;
    drop(waiting);
    let wanted = headers::requested_upgrade(&request);
    let user = wanted.is_some().then(|| OnUpgrade::take(&mut request));
    let (mut head, upload) = request.into_parts();
    let pooled = match &place {
        Place::Session(session, _) if !needs_caller && !signs_in_connection(&head.headers) => {
            record.set_session(Arc::as_ptr(session).addr());
            hub.services.connections(&service)?.over(session)
        }
        _ => None,
    };
    prepare(&mut head, &connection.peer.ip().to_canonical().to_string())?;
    match &wanted {
        Some(protocol) => headers::set_upgrade(&mut head.headers, protocol),
        None if pooled.is_none() => {
            let close = HeaderValue::from_static("close");
            head.headers.insert(header::CONNECTION, close);
        }
        None => {}
    }
    let client = pooled.unwrap_or_else(|| Client::new(0));
    let query = head.uri.query().map(str::to_owned);
    let (upload, progress) = recorded_upload(upload, &record);
    let request = Request::from_parts(head, upload);
    let mut place = Some(place);
    let connect = || {
        let place = place.take().map(|place| (place, budget));
        connect_target(hub, &record, permitted, place, connected)
    };
    let answer = exchange(client.send(request, connect), &progress, hub.head_timeout).await?;
    // The request went over an idle connection, and has its place still.
    if let Some(Place::Session(_, running)) = place {
        record.keep_running(running);
    }
    match answer {
        Answer::Response(mut response) => {
            headers::strip_service_answer(response.headers_mut(), false);
            *response.version_mut() = Version::HTTP_11;
            Ok(response)
        }
        Answer::Upgraded(head, agent) => {
            let user = user.zip(wanted);
            let (reset, query) = (connection.reset, query.as_deref());
            join(hub, record, reset, user, query, (head, agent))
        }
    }
}

/// Joins the client with the target after an upgrade.
fn join(
    hub: &Arc<Hub>,
    record: RequestRecord,
    reset: ResetOnDrop,
    user: Option<(OnUpgrade, HeaderValue)>,
    query: Option<&str>,
    (mut head, agent): (Response<()>, Upgraded),
) -> Result<Response<Body>, Failure> {
    let (client, protocol) = user
        .ok_or_else(|| Failure::because(Code::TcpBroke, "the target upgraded without a request"))?;
    headers::strip_service_answer(head.headers_mut(), true);
    let farewell = Farewell::of(record.kind(), query, &protocol, head.headers());
    let joined = Joined::Protocol(Protocol::of(&protocol));
    let ends = UpgradeEnds { client, agent };
    upgrade::join(hub, record, reset, ends, joined, (farewell, None));
    Ok(head.map(|()| body::empty()))
}

/// A place among the requests of unknown clients that wait.
fn waiting(record: &RequestRecord) -> Result<impl Sized + use<>, Failure> {
    let waiting = record.strangers().requests.take(1);
    waiting.ok_or_else(|| Code::TooManyRequests.into())
}

/// True for a sign-in that holds for the rest of its connection (RFC 4559, MS-NTHT), so no other client may use it.
fn signs_in_connection(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    values.any(|value| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next();
        scheme.is_some_and(|it| {
            it.eq_ignore_ascii_case(b"negotiate") || it.eq_ignore_ascii_case(b"ntlm")
        })
    })
}

/// Connects to the target of a service, as the sender of this request.
async fn connect_target(
    hub: &Arc<Hub>,
    record: &RequestRecord,
    permitted: PermittedRequest,
    place: Option<(Place, Duration)>,
    connected: oneshot::Receiver<Upgraded>,
) -> Result<SocketTransport<Upgraded>, Failure> {
    let _waiting = waiting(record)?;
    let (place, budget) = place.ok_or(Code::Internal)?;
    forward_to(hub, permitted, place, budget).await?;
    // The sender is dropped only if the answer was no connection, which is an error above.
    let connected = connected.await.map_err(|_| Code::Internal)?;
    Ok(SocketTransport::new(connected))
}

/// The `CONNECT` for a target, and the connection once it is there.
fn connect_request(
    service: &NamedService,
    inbound: Inbound,
) -> Result<(ClusterRequest, oneshot::Receiver<Upgraded>), Failure> {
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
    Ok((request, connected))
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

/// Waits for the head of the answer. The deadline restarts while the upload moves.
async fn exchange(
    sending: impl Future<Output = Result<Answer, SendError<Failure>>>,
    progress: &UploadProgress,
    head_timeout: Duration,
) -> Result<Answer, Failure> {
    let mut sending = std::pin::pin!(sending);
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
            SendError::Connect(failure) => failure,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_of_a_connection_is_seen_in_any_case() {
        let signs_in = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            signs_in_connection(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        };
        assert!(signs_in("NTLM TlRMTVNTUAAB") && signs_in("negotiate YII"));
        assert!(!signs_in("Basic eDp5") && !signs_in("Bearer ntlm"));
        assert!(!signs_in_connection(&HeaderMap::new()));
    }
}
