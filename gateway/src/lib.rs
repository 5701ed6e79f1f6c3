//! Gateway: accepts agents and kubectl and joins the two. It never holds the CA key and never reads a
//! database.
//!
//! `front` is the request pipeline from a socket to a session, `agents` is everything about sessions, `hubs` forwards
//! requests between hubs, `services` listens for named services, `http` is shared by all.

mod admission;
mod agents;
mod body_budget;
mod config;
mod drain;
mod front;
mod http;
mod hub;
mod hubs;
mod metrics;
mod requests;
mod services;
mod supervisor;

use std::{net::SocketAddr, sync::Arc};

use fairlead_api::{Code, Failure};
use fairlead_audit::AuditLog;
use fairlead_runtime::{Process, listen};
use fairlead_seam::Seam;
use fairlead_traces::Traces;
use tokio::net::TcpListener;

pub use config::{Config, GatewayLimits};

use hub::Hub;

/// One gateway, ready to serve.
pub struct Gateway {
    hub: Arc<Hub>,
    listener: TcpListener,
    address: SocketAddr,
    plain: Option<TcpListener>,
}

impl Gateway {
    /// Builds a gateway; all fallible setup happens here.
    ///
    /// # Errors
    /// `FL-4104` if `listener` has no address, `FL-5101` if this process has a gateway already.
    ///
    /// # Panics
    /// If two modules claim the same route.
    pub fn build(
        config: Config,
        seam: Seam,
        listener: TcpListener,
        process: &Process,
    ) -> Result<Self, Failure> {
        let address = listener
            .local_addr()
            .map_err(|error| Failure::because(Code::AddressInUse, error))?;
        Ok(Gateway {
            hub: Arc::new(Hub::build(config, seam, process)?),
            listener,
            address,
            plain: None,
        })
    }

    /// Also serves plain HTTP/1.1 on `listener`, for a proxy that ends TLS.
    ///
    /// That network carries the users' tokens in the clear; agents' sessions have a TLS of their own.
    #[must_use]
    pub fn with_plain(mut self, listener: Option<TcpListener>) -> Self {
        self.plain = listener;
        self
    }

    /// Writes each request of people, programs and agents to this log.
    #[must_use]
    pub fn with_audit(self, log: AuditLog) -> Self {
        // Each gateway is built once, so the place is empty.
        let _ = self.hub.audit.set(log);
        self
    }

    /// Records spans of requests.
    #[must_use]
    pub fn with_traces(self, traces: Traces) -> Self {
        // Each gateway is built once, so the place is empty.
        let _ = self.hub.traces.set(traces);
        self
    }

    /// Address of the TLS listener.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process drains.
    ///
    /// Requests and sessions are tasks of the process, so its drain waits for them. A session of an agent is closed
    /// once no request runs on it; until then the agent may come back over another link. The listeners accept
    /// connections for that as long as a session is left, and reject all other requests.
    ///
    /// # Errors
    /// None at present.
    pub async fn serve(self) -> Result<(), Failure> {
        let Gateway {
            hub,
            listener,
            plain,
            ..
        } = self;
        hub.process
            .spawn(drain::close_after_delay(Arc::clone(&hub)));
        agents::start(&hub);
        hub.process.spawn(hubs::follow(Arc::clone(&hub)));
        hub.process
            .spawn(requests::recheck::supervise(Arc::clone(&hub)));
        hub.process
            .spawn(front::eviction::evict_under_pressure(Arc::clone(&hub)));
        for module in &hub.seam.modules {
            let (module, process) = (Arc::clone(module), hub.process.clone());
            hub.process.spawn(supervisor::supervise(
                module,
                process,
                Arc::clone(&hub.metrics),
            ));
        }
        if let Some(named) = hub.named_services.clone() {
            hub.process.spawn(services::follow(Arc::clone(&hub), named));
        }
        let front = front::Front::new(&hub);
        if let Some(listener) = plain {
            let (hub, front) = (Arc::clone(&hub), front.clone());
            hub.process.clone().spawn(async move {
                let serve = move |socket, peer| front.clone().serve_plain(socket, peer);
                listen::accept_loop(
                    listener,
                    &hub.process,
                    hub.sessions_ended.cancelled(),
                    serve,
                )
                .await;
            });
        }
        let process = hub.process.clone();
        process.spawn(async move {
            let serve = move |socket, peer| front.clone().serve(socket, peer);
            listen::accept_loop(
                listener,
                &hub.process,
                hub.sessions_ended.cancelled(),
                serve,
            )
            .await;
        });
        process.draining().await;
        Ok(())
    }
}
