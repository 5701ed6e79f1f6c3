//! Events of agents' requests for the audit log.

use std::{net::SocketAddr, sync::Arc};

use fairlead_api::Code;
use fairlead_audit::{AuditLog, EventCaller, RequestHead, RequestParty, RequestResult};
use fairlead_exchange::Body;
use http::{Request, Response};
use http_body::Body as _;
use tokio::time::Instant;

use crate::{
    agents::stream_peer::StreamPeer, front::record::head_of, hub::Hub, metrics::RequestEnd,
};

/// A running request of an agent.
pub(crate) struct AuditedRequest {
    log: AuditLog,
    head: Arc<RequestHead>,
    party: RequestParty,
    bytes_in: u64,
    started: Instant,
}

impl AuditedRequest {
    /// Reports the start of a request; `None` without a log.
    pub(crate) fn begin(hub: &Hub, peer: &StreamPeer, request: &Request<Body>) -> Option<Self> {
        let log = hub.audit.get()?.clone();
        let (from, identity) = match peer {
            StreamPeer::Anonymous(from, _) => (*from, None),
            StreamPeer::Lapsed(identity, from, _) => (*from, Some(identity)),
            StreamPeer::Agent(entry) => (entry.from(), Some(entry.identity())),
        };
        let head = Arc::new(head_of(request, SocketAddr::new(from, 0)));
        let party = RequestParty {
            caller: identity.map(|identity| EventCaller {
                name: format!("agent:{}", identity.cluster),
                ..EventCaller::default()
            }),
            cluster: identity.map(|identity| identity.cluster.to_string()),
            tenant: identity.map(|identity| identity.tenant.to_string()),
            ..RequestParty::default()
        };
        // Peers without an identity are not authorized yet.
        if party.caller.is_some() {
            log.start_of(&head, party.clone());
        }
        Some(AuditedRequest {
            log,
            head,
            party,
            bytes_in: request.body().size_hint().exact().unwrap_or_default(),
            started: Instant::now(),
        })
    }

    /// Reports the end, when the answer is known.
    pub(crate) fn end(self, response: &Response<Body>, code: Option<Code>) {
        let outcome = match code {
            None => RequestEnd::Ok,
            Some(_) if response.status().is_client_error() => RequestEnd::Refused,
            Some(_) => RequestEnd::Failed,
        };
        let result = RequestResult {
            status: Some(response.status().as_u16()),
            code: code.map(Code::number),
            outcome: outcome.as_str(),
            bytes_in: self.bytes_in,
            bytes_out: response.body().size_hint().exact().unwrap_or_default(),
            took: self.started.elapsed(),
        };
        self.log.end_of(&self.head, self.party, result);
    }
}
