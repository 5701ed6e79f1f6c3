//! The whole way of a request, on one screen.

use std::{convert::Infallible, sync::Arc};

use fairlead_api::{Code, Failure};
use fairlead_dialer::Body;
use http::Response;
use tokio::sync::Semaphore;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};

use crate::{
    agents::connect::connect,
    front::{
        audit::audit,
        authenticate::authenticate,
        authorize::authorize,
        forward::forward,
        limit::limit,
        modules::module,
        panic::catch_panic,
        record::Inbound,
        respond::respond,
        route::{Routed, route},
    },
    hub::Hub,
};

pub(crate) type Stack = BoxCloneSyncService<Inbound, Response<Body>, Infallible>;

/// Requests whose answers have not ended, of all users together.
const MAX_REQUESTS: usize = 16_384;

/// An [`Inbound`] has its request id already, given as soon as its head was read.
pub(crate) fn stack(hub: &Arc<Hub>) -> Stack {
    let cluster = ServiceBuilder::new()
        .filter_async(with(hub, authenticate)) // request -> Caller
        .filter(with(hub, |hub, known| limit(&hub, known))) // before it costs others anything
        .filter_async(with(hub, authorize)) // Caller -> Permit, before any work is done
        // Takes a Permit, which only `authorize` can make. Boxed: every step above moves what stands below it.
        .service_fn(with(hub, |hub, allowed| Box::pin(forward(hub, allowed))));
    let agent = service_fn(with(hub, connect)); // proves itself inside, by certificate
    // A module asks itself who the caller is, when it has looked at the request, and decides what they may.
    let module = service_fn(with(hub, module));

    let load = Arc::new(Semaphore::new(MAX_REQUESTS));
    let (shapes, routes) = (Arc::clone(hub), Arc::clone(hub));
    let stack = ServiceBuilder::new()
        .layer_fn(audit) // outermost: tells of refused requests too, and of how the body ended
        .layer_fn(move |inner| respond(Arc::clone(&shapes), inner)) // turns any error below into one answer
        .layer_fn(catch_panic) // so that a bug of ours is one answer, not a lost connection
        .filter(with(hub, move |hub, inbound| admit(&hub, &load, inbound))) // before it costs anything
        .filter(move |inbound| route(&routes, inbound)) // refuses what must not be passed on
        .service_fn(move |routed| {
            let (cluster, agent, module) = (cluster.clone(), agent.clone(), module.clone());
            async move {
                match routed {
                    Routed::Cluster(request) => cluster.oneshot(request).await,
                    Routed::Agent(request) => agent.oneshot(request).await.map_err(BoxError::from),
                    Routed::Module(request) => {
                        module.oneshot(request).await.map_err(BoxError::from)
                    }
                }
            }
        });
    BoxCloneSyncService::new(stack)
}

/// Gives a step the hub it works for.
fn with<T, F, R>(hub: &Arc<Hub>, step: F) -> impl Fn(T) -> R + Clone + use<T, F, R>
where
    F: Fn(Arc<Hub>, T) -> R + Clone,
{
    let hub = Arc::clone(hub);
    move |asked| step(Arc::clone(&hub), asked)
}

/// A slot is held until the answer's last byte: a watch is a request under way for as long as it runs.
fn admit(hub: &Hub, load: &Arc<Semaphore>, inbound: Inbound) -> Result<Inbound, Failure> {
    if hub.process.is_draining() {
        return Err(Code::Draining.into());
    }
    match Arc::clone(load).try_acquire_owned() {
        Ok(slot) => inbound.record.hold(slot),
        Err(_) => return Err(Code::TooManyRequests.into()),
    }
    Ok(inbound)
}
