//! Events of agents' requests for the audit log.

use std::{net::SocketAddr, sync::Arc};

use fairlead_api::Code;
use fairlead_audit::{AuditLog, CallerNames, RequestParty, RequestResult};
use fairlead_certs::AgentIdentity;
use fairlead_exchange::Body;
use http::{Request, Response};
use http_body::Body as _;
use tokio::time::Instant;

use crate::{
    agents::stream_peer::StreamPeer, front::record::OwnedHead, hub::Hub, metrics::RequestEnd,
};

/// A running request of an agent.
pub(crate) struct AuditedRequest {
    log: AuditLog,
    head: OwnedHead,
    agent: Option<AuditedAgent>,
    bytes_in: u64,
    started: Instant,
}

/// An agent as the caller of a request.
struct AuditedAgent {
    name: String,
    identity: Arc<AgentIdentity>,
}

impl AuditedAgent {
    fn party(&self) -> RequestParty<'_> {
        RequestParty {
            caller: Some(CallerNames {
                name: &self.name,
                ..CallerNames::default()
            }),
            cluster: Some(self.identity.cluster.as_str()),
            tenant: Some(self.identity.tenant.as_str()),
            ..RequestParty::default()
        }
    }
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
        let head = OwnedHead::of(request, SocketAddr::new(from, 0));
        let agent = identity.map(|identity| AuditedAgent {
            name: format!("agent:{}", identity.cluster),
            identity: Arc::clone(identity),
        });
        // Peers without an identity are not authorized yet.
        if let Some(agent) = &agent {
            log.start_of(&head.view(), &agent.party());
        }
        Some(AuditedRequest {
            log,
            head,
            agent,
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
        let party = self.agent.as_ref().map(AuditedAgent::party);
        self.log
            .end_of(&self.head.view(), &party.unwrap_or_default(), &result);
    }
}
