//! Accepts agents, accepts kubectl, joins the two; the module seam. It never holds the CA key and never reads a
//! database.
//!
//! `front` is the way of a request from a socket to a session, `agents` is everything about sessions, `seam` is what
//! modules are asked and what they give.

mod agents;
mod front;
mod hub;
mod metrics;
mod network;
pub mod seam;
mod waiting;
mod work;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, HubUrl};
use fairlead_runtime::{Process, listen};
use rustls::ServerConfig;
use tokio::{net::TcpListener, sync::watch};

pub use network::network;
pub use seam::{
    AgentPeer, Asker, Authenticator, Authorizer, Caller, Directory, Grant, Module, Presence,
    Recognition, Seam,
};

use hub::Hub;

/// What a gateway needs to start.
pub struct Config {
    /// Where people and agents reach it. Its host is the hub's own name; any other host that is no cluster's is taken
    /// for the hub too, so that a load balancer may have a name of its own.
    pub public_url: HubUrl,
    /// Clusters answer as `<id>.<cluster_domain>` too.
    pub cluster_domain: String,
    /// TLS of the front, with `h2` and `http/1.1` by ALPN; taken afresh for each connection.
    pub front_tls: watch::Receiver<Arc<ServerConfig>>,
    /// TLS inside a session; taken afresh for each session.
    pub session_tls: watch::Receiver<Arc<ServerConfig>>,
    /// Trust domain of agents' identities.
    pub trust_domain: String,
    /// How long a cluster may be silent before the head of its answer, `FL-1405`. It does not run while the request's
    /// body moves. 60 s suits: it is the API server's own limit.
    pub head_timeout: Duration,
    /// How many requests of one caller may be under way, watches and upgrades included; the next is told `FL-1407`.
    pub max_requests_per_caller: usize,
    /// How long a session whose link broke waits for its agent. Zero: it ends with its link.
    pub resume_window: Duration,
    /// What all sessions may hold together, in bytes, beyond 256 KiB each of messages that are not acknowledged and the
    /// first 256 KiB of each stream's window. Where it is used up, bulk slows down.
    pub session_memory: usize,
}

/// One gateway, ready to serve.
pub struct Gateway {
    hub: Arc<Hub>,
    listener: TcpListener,
    address: SocketAddr,
    plain: Option<TcpListener>,
}

impl Gateway {
    /// Everything that can fail fails here.
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

    /// Serves the same on `listener` over plain HTTP/1.1, for a proxy that ends TLS. Whoever can read that network reads
    /// the tokens of people; agents' sessions are sealed anyway.
    #[must_use]
    pub fn with_plain(mut self, listener: Option<TcpListener>) -> Self {
        self.plain = listener;
        self
    }

    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Until the process drains. Requests and sessions are tasks of the process, so its drain waits for them; an agent is
    /// told as soon as nothing runs on its session, and until then may come back to it over another link. As long as there
    /// is a session connections are accepted for that, and whatever else comes is refused.
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
        agents::start(&hub);
        for module in &hub.seam.modules {
            let (module, process) = (Arc::clone(module), hub.process.clone());
            hub.process
                .spawn(work::work(module, process, Arc::clone(&hub.metrics)));
        }
        let front = front::Front::new(&hub);
        if let Some(listener) = plain {
            let (hub, front) = (Arc::clone(&hub), front.clone());
            hub.process.clone().spawn(async move {
                let serve = move |socket, peer| front.clone().serve_plain(socket, peer);
                listen::accept_loop(listener, &hub.process, hub.over.cancelled(), serve).await;
            });
        }
        let process = hub.process.clone();
        process.spawn(async move {
            let serve = move |socket, peer| front.clone().serve(socket, peer);
            listen::accept_loop(listener, &hub.process, hub.over.cancelled(), serve).await;
        });
        process.draining().await;
        Ok(())
    }
}
