//! Accepts agents, accepts kubectl, joins the two; the module seam. It never holds the CA key and never reads a
//! database.
//!
//! `front` is the way of a request from a socket to a session, `agents` is everything about sessions, `seam` is what
//! modules are asked and what they give.

mod agents;
mod config;
mod front;
mod http;
mod hub;
mod metrics;
mod network;
pub mod seam;
mod waiting;
mod work;

use std::{net::SocketAddr, sync::Arc};

use fairlead_api::{Code, Failure};
use fairlead_runtime::{Process, listen};
use tokio::net::TcpListener;

pub use config::Config;
pub use network::network;
pub use seam::{
    AgentPeer, Asker, Authenticator, Authorizer, Caller, Directory, Grant, Module, Presence,
    Recognition, Seam,
};

use hub::Hub;

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
