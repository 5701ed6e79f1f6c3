//! Peers of sessions.

use std::{net::IpAddr, sync::Arc};

use fairlead_certs::AgentIdentity;
use tokio::sync::Notify;

use crate::agents::entry::SessionEntry;

/// Peer of a session, for the rights of its requests.
#[derive(Clone)]
pub(crate) enum StreamPeer {
    /// Address of the peer, and a wake-up for its idle timeout.
    Anonymous(IpAddr, Arc<Notify>),
    /// As an anonymous peer, with an identity that expired not too long ago.
    Lapsed(Arc<AgentIdentity>, IpAddr, Arc<Notify>),
    Agent(Arc<SessionEntry>),
}
