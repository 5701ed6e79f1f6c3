//! Connections to named services that the hub passes on as bytes: at their ports, and by the server name of TLS. Each is a request of the service itself, on the same path as a client's TCP
//! connection; its client is known by its address only.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use fairlead_api::{Code, Failure, status::http_status};
use fairlead_exchange::{Body, OnUpgrade, Upgraded};
use fairlead_runtime::gauges::GaugeGuard;
use fairlead_seam::NamedService;
use http::{Method, Request, Response, StatusCode, uri::PathAndQuery};
use tokio::net::TcpStream;
use tracing::debug;

use crate::{
    front::{
        Front,
        address::AddressForm,
        authorize::authorize_service,
        connection::ConnectionState,
        forward::forward,
        record::{Inbound, RequestRecord},
        route::ClusterRequest,
        socket::{ClientConnection, ClientSocket, ResetOnDrop},
        stack::unless_ended,
        tcp::TcpRequest,
    },
    http::body,
};

impl Front {
    /// Serves a connection at the port of a service.
    pub(crate) async fn serve_service(self, port: u16, socket: TcpStream, peer: SocketAddr) {
        let _open = GaugeGuard::of(&self.hub.metrics.connections);
        let Some((socket, peer)) = self.client(socket, peer).await else {
            return;
        };
        // The service may be gone since the connection was accepted.
        let Some(service) = self.hub.services.of_port(port) else {
            return;
        };
        let (socket, reset, state) = self.client_socket(socket, peer);
        self.serve_bytes(&service, socket, (peer, reset, state))
            .await;
    }

    /// Passes the bytes of a connection on to the target of a service.
    pub(super) async fn serve_bytes(
        &self,
        service: &Arc<NamedService>,
        socket: ClientSocket,
        (peer, reset, state): (SocketAddr, ResetOnDrop, Arc<ConnectionState>),
    ) {
        // A refusal must not look like a clean end: plain TCP has no other message.
        reset.arm();
        let connection = ClientConnection {
            peer,
            strangers: None,
            sni: None,
            service: Some(Arc::clone(service)),
            reset,
            state,
        };
        let client = OnUpgrade::ready(Upgraded::new(socket, Bytes::new()));
        self.connect_service(service, connection, client).await;
    }

    /// Connects a client to the target of a service, and reports the result to its record.
    async fn connect_service(
        &self,
        service: &Arc<NamedService>,
        connection: ClientConnection,
        client: OnUpgrade,
    ) {
        let hub = &self.hub;
        let path = service.target.path(&service.cluster);
        let mut request = Request::new(body::empty());
        *request.method_mut() = Method::CONNECT;
        let Ok(path) = PathAndQuery::try_from(path) else {
            return;
        };
        *request.uri_mut() = path.clone().into();
        let record = RequestRecord::begin(
            &request,
            &connection,
            &hub.requests,
            hub.audit.get(),
            hub.traces.get(),
            &hub.metrics,
        );
        record.set_tcp_cluster(&service.cluster);
        let answered = match TcpRequest::of_service(&service.target, client) {
            Ok(tcp) => {
                let request = ClusterRequest {
                    inbound: Box::new(Inbound {
                        request,
                        connection,
                        record: record.clone(),
                    }),
                    cluster: service.cluster.clone(),
                    path,
                    form: AddressForm::Path,
                    as_user: None,
                    tcp: Some(Box::new(tcp)),
                };
                self.forward_service(service, &record, request).await
            }
            Err(error) => Err(error.into()),
        };
        match answered {
            Ok(response) => record.set_status(response.status()),
            Err(failure) => {
                debug!(request = record.id(), service = %service.name, code = %failure.code, cause = failure.cause, "connection to a service refused");
                record.set_code(failure.code);
                let status = StatusCode::from_u16(http_status(failure.code));
                record.set_status(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
            }
        }
    }

    async fn forward_service(
        &self,
        service: &Arc<NamedService>,
        record: &RequestRecord,
        request: ClusterRequest,
    ) -> Result<Response<Body>, Failure> {
        let hub = &self.hub;
        if hub.closing.is_cancelled() {
            return Err(Code::Draining.into());
        }
        hub.check_audit()?;
        // Until the target is connected: one address gets an even share of the clients that wait.
        let waiting = record.strangers().requests.take(1);
        let _waiting = waiting.ok_or(Code::TooManyRequests)?;
        let permitted = authorize_service(hub, service, request).await?;
        unless_ended(record, Box::pin(forward(hub, permitted))).await
    }
}
