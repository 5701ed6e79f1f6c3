//! The step that finds the destination of a request: a cluster, a module's route, or the session of an agent. It
//! rejects all that must not pass, before anything is authenticated.

use std::sync::Arc;

use fairlead_api::{ClusterId, headers::AGENT_PATH_PREFIX};
use fairlead_dialer::accept::CONNECT_PATH;
use fairlead_seam::NamedService;
use http::{HeaderValue, Method, Version, uri::PathAndQuery};

use crate::{
    front::{
        address::{AddressForm, Destination, host_name},
        headers,
        record::Inbound,
        tcp::TcpRequest,
    },
    http::{error::RequestError, lookup::first, path},
    hub::Hub,
};

/// A request to a cluster.
pub(crate) struct ClusterRequest {
    pub(crate) inbound: Box<Inbound>,
    pub(crate) cluster: ClusterId,
    /// Path and query of the API server; for a TCP connection those of the hub.
    pub(crate) path: PathAndQuery,
    /// Form of the address that the client used.
    pub(crate) form: AddressForm,
    /// The user of `kubectl --as`, not checked yet.
    pub(crate) as_user: Option<HeaderValue>,
    /// The TCP connection that the client wants, in the place of an answer of the API server.
    pub(crate) tcp: Option<Box<TcpRequest>>,
}

impl AsRef<Inbound> for ClusterRequest {
    fn as_ref(&self) -> &Inbound {
        &self.inbound
    }
}

pub(crate) enum Route {
    Cluster(ClusterRequest),
    Agent(Box<Inbound>),
    /// A request to a named service, by its host.
    Service(Box<Inbound>, Arc<NamedService>),
    Module(Box<Inbound>),
}

/// Checks the request and finds its destination.
///
/// # Errors
/// `FL-1202`, `FL-1301` to `FL-1304`, `FL-1306`, `FL-1420`, `FL-1421`.
pub(crate) fn route(hub: &Arc<Hub>, inbound: Box<Inbound>) -> Result<Route, RequestError> {
    let request = &inbound.request;
    headers::check(request)?;
    let authority = authority(&inbound)?;
    if let Some(service) = &inbound.connection.service {
        // A browser that uses one connection for several names sends the request again on a new one.
        let sni = inbound.connection.sni.as_deref();
        let host = authority.map(host_name).transpose()?;
        if sni.is_some_and(|sni| !host.is_some_and(|it| it.eq_ignore_ascii_case(sni))) {
            return Err(RequestError::WrongHost(
                "Host names a service, TLS names something else",
            ));
        }
        inbound.record.set_tcp_cluster(&service.cluster);
        let service = Arc::clone(service);
        return Ok(Route::Service(inbound, service));
    }
    path::check(request.uri().path())?;
    let sni = inbound.connection.sni.as_deref();
    let address = hub.names.locate(sni, authority, request.uri())?;
    let is_tcp = matches!(address, Destination::Tcp(_));
    if request.method() == Method::CONNECT && !is_tcp {
        return Err(RequestError::path("CONNECT is for TCP connections only"));
    }
    match address {
        Destination::Cluster(cluster, path, form) => {
            // Whatever the address has left out: this is the path that the agent gets.
            path::check(path.path())?;
            if path.path().starts_with(AGENT_PATH_PREFIX) {
                return Err(RequestError::path("/.fairlead/ is reserved for the hub"));
            }
            let as_user = headers::impersonated(request.headers())?;
            inbound.record.set_cluster(&cluster, path.path());
            if let Some(user) = &as_user {
                inbound.record.set_as_user(user);
            }
            Ok(Route::Cluster(ClusterRequest {
                inbound,
                cluster,
                path,
                form,
                as_user,
                tcp: None,
            }))
        }
        Destination::Tcp(cluster) => {
            let tcp = TcpRequest::of(request)?;
            let path = (request.uri().path_and_query().cloned())
                .ok_or_else(|| RequestError::path("it is missing"))?;
            inbound.record.set_tcp_cluster(&cluster);
            Ok(Route::Cluster(ClusterRequest {
                inbound,
                cluster,
                path,
                form: AddressForm::Path,
                as_user: None,
                tcp: Some(Box::new(tcp)),
            }))
        }
        Destination::Hub => Ok(match request.uri().path() {
            CONNECT_PATH => Route::Agent(inbound),
            _ => Route::Module(inbound),
        }),
    }
}

/// The host that the request names. HTTP/2 has it in the target, HTTP/1 in a header and nowhere else.
fn authority(inbound: &Inbound) -> Result<Option<&str>, RequestError> {
    let request = &inbound.request;
    let header = first(request.headers(), &http::header::HOST)
        .map(|value| value.to_str())
        .transpose()
        .map_err(|_| RequestError::Malformed("its Host is invalid"))?;
    let target = request.uri().authority().map(http::uri::Authority::as_str);
    if request.method() == Method::CONNECT && !headers::is_websocket_connect(request) {
        return Err(RequestError::path("CONNECT is not supported"));
    }
    if request.version() != Version::HTTP_2 {
        if target.is_some() || request.uri().scheme().is_some() {
            return Err(RequestError::path("its target is an absolute URL"));
        }
        return Ok(header);
    }
    match (target, header) {
        (Some(a), Some(b)) if !a.eq_ignore_ascii_case(b) => {
            Err(RequestError::WrongHost("Host and :authority differ"))
        }
        (target, header) => Ok(target.or(header)),
    }
}
