//! The request pipeline on one screen.
//!
//! Steps are plain functions, each called once, so no request pays for a copy of the inner steps.

use std::{future::Future, sync::Arc};

use fairlead_api::{Code, Failure};
use fairlead_exchange::Body;
use http::Response;

use crate::{
    drain,
    front::{
        audit::audit,
        authenticate::authenticate,
        authorize::authorize,
        catch_panic::catch_panic,
        connect::connect,
        drain_body::drain_body,
        forward::forward,
        limit::limit,
        modules::call_module,
        record::{Inbound, RequestRecord},
        respond::respond,
        route::{Route, route},
        service_host::forward_to_service,
        strangers::limit_strangers,
        transfer::RecordedDownload,
    },
    hub::Hub,
};

#[derive(Clone)]
pub(crate) struct Stack {
    hub: Arc<Hub>,
}

impl Stack {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        Stack {
            hub: Arc::clone(hub),
        }
    }

    /// Runs the steps, outermost first. An [`Inbound`] has its request id already, from the moment its head was read.
    pub(crate) async fn answer(self, inbound: Box<Inbound>) -> Response<RecordedDownload> {
        let hub = &self.hub;
        // Logs rejected requests too, and the end of the body.
        audit(inbound, |inbound| {
            // Reads the rest of a rejected request, so that its client gets the answer.
            drain_body(inbound, |inbound| {
                // Bounds requests until their caller is authenticated.
                limit_strangers(inbound, |inbound| {
                    // Turns any error below into one answer.
                    respond(hub, inbound, |inbound| {
                        // Turns a bug of ours into one answer, not a lost connection.
                        catch_panic(inbound.record.clone(), self.route_and_forward(inbound))
                    })
                })
            })
        })
        .await
    }

    async fn route_and_forward(&self, inbound: Box<Inbound>) -> Result<Response<Body>, Failure> {
        let hub = &self.hub;
        // Rejects all that must not pass, before anything is authenticated.
        let routed = route(hub, inbound)?;
        let is_closing = hub.closing.is_cancelled();
        match routed {
            Route::Agent(inbound) => connect(hub, inbound), // authenticates inside the session, by certificate
            _ if is_closing => Err(Code::Draining.into()),  // only running requests go on
            // Load balancers send the next requests to other hubs.
            Route::Module(inbound) if drain::is_unhealthy(hub, &inbound.request) => {
                Err(Code::Draining.into())
            }
            _ if let Err(failure) = hub.check_audit() => Err(failure), // before an event could be lost
            Route::Cluster(routed) => {
                let authenticated = authenticate(hub, routed).await?; // request -> Caller
                let authenticated = limit(hub, authenticated)?; // before it costs others anything
                let permitted = authorize(hub, authenticated).await?; // Caller -> Permit, before any work is done
                let record = permitted.routed.inbound.record.clone();
                unless_ended(&record, Box::pin(forward(hub, permitted))).await // takes a Permit, which only `authorize` can make
            }
            Route::Service(inbound, service) => {
                let record = inbound.record.clone();
                let forwarded = forward_to_service(hub, inbound, service);
                unless_ended(&record, Box::pin(forwarded)).await // makes a permit for the service, or for its caller
            }
            // A module authenticates the caller itself, after a look at the request, and authorizes it.
            Route::Module(inbound) => {
                let record = inbound.record.clone();
                unless_ended(&record, Box::pin(call_module(hub, inbound))).await
            }
        }
    }
}

/// Runs a step until the hub ends the request.
pub(crate) async fn unless_ended(
    record: &RequestRecord,
    step: impl Future<Output = Result<Response<Body>, Failure>>,
) -> Result<Response<Body>, Failure> {
    tokio::select! {
        biased;
        answer = step => answer,
        failure = record.ended_before_answer() => Err(failure),
    }
}
