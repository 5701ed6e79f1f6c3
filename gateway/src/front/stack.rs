//! The whole way of a request, on one screen. Steps are plain functions, each called once: no request pays for copies of
//! what stands below a step.

use std::sync::Arc;

use fairlead_api::{Code, Failure};
use fairlead_dialer::Body;
use http::Response;
use tokio::sync::Semaphore;

use crate::{
    front::{
        audit::audit,
        authenticate::authenticate,
        authorize::authorize,
        catch_panic::catch_panic,
        connect::connect,
        forward::forward,
        limit::limit,
        modules::module,
        record::Inbound,
        respond::respond,
        route::{Routed, route},
        unread::read_all,
    },
    hub::Hub,
};

/// Requests whose answers have not ended, of all users together.
const MAX_REQUESTS: usize = 16_384;

#[derive(Clone)]
pub(crate) struct Stack {
    hub: Arc<Hub>,
    load: Arc<Semaphore>,
}

impl Stack {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        Stack {
            hub: Arc::clone(hub),
            load: Arc::new(Semaphore::new(MAX_REQUESTS)),
        }
    }

    /// Outermost first. An [`Inbound`] has its request id already, given as soon as its head was read.
    pub(crate) async fn answer(self, inbound: Box<Inbound>) -> Response<Body> {
        let hub = &self.hub;
        // Tells of refused requests too, and of how the body ended.
        audit(inbound, |inbound| {
            // So that whoever is refused hears of it, and knows whether the connection goes on.
            read_all(inbound, |inbound| {
                // Turns any error below into one answer.
                respond(hub, inbound, |inbound| {
                    // So that a bug of ours is one answer, not a lost connection.
                    catch_panic(inbound.record.clone(), self.way(inbound))
                })
            })
        })
        .await
    }

    async fn way(&self, inbound: Box<Inbound>) -> Result<Response<Body>, Failure> {
        let hub = &self.hub;
        self.admit(&inbound)?; // before it costs anything
        // What must not be passed on is refused before anybody is asked anything.
        let routed = route(hub, inbound)?;
        let is_draining = hub.process.is_draining();
        match routed {
            Routed::Agent(inbound) => connect(hub, inbound), // proves itself inside, by certificate
            _ if is_draining => Err(Code::Draining.into()),  // only what runs goes on
            Routed::Cluster(aimed) => {
                let known = authenticate(hub, aimed).await?; // request -> Caller
                let known = limit(hub, known)?; // before it costs others anything
                let allowed = authorize(hub, known).await?; // Caller -> Permit, before any work is done
                Box::pin(forward(hub, allowed)).await // takes a Permit, which only `authorize` can make
            }
            // A module asks itself who the caller is, when it has looked at the request, and decides what they may.
            Routed::Module(inbound) => Box::pin(module(hub, inbound)).await,
        }
    }

    /// A slot is held until the answer's last byte: a watch is a request under way for as long as it runs.
    fn admit(&self, inbound: &Inbound) -> Result<(), Failure> {
        let slot = Arc::clone(&self.load).try_acquire_owned();
        inbound
            .record
            .hold(slot.map_err(|_| Code::TooManyRequests)?);
        Ok(())
    }
}
