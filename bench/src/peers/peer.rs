//! A running peer: its processes, and the routes of requests through it.

use super::{
    bed::{Bed, Ports},
    forwarder::Forwarder,
    kind::Kind,
    part::PeerPart,
};
use crate::way::{Legs, Way};

/// A running peer.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    pub(super) tls: Option<Way>,
    pub(super) plain: Option<Way>,
    /// The process that clients connect to: a hub or a proxy.
    pub(crate) hub: Option<PeerPart>,
    pub(crate) agent: Option<PeerPart>,
    /// Relay between agent and hub, where the link is slowed down or broken.
    pub(crate) relay: Option<PeerPart>,
    /// Client's end of raw TCP, where that is measured.
    pub(crate) forwarder: Option<Forwarder>,
    /// Ports of tunnels other than Fairlead.
    pub(super) ports: Option<Ports>,
    /// The metrics page of the hub, of Fairlead only.
    pub(crate) admin: Option<Way>,
}

impl Peer {
    pub(crate) fn way(&self, legs: Legs) -> Option<&Way> {
        match legs {
            Legs::Tls => self.tls.as_ref(),
            Legs::Plain => self.plain.as_ref(),
        }
    }

    /// Processes between client and upstream, the client's side first.
    pub(super) fn parts(&mut self) -> impl Iterator<Item = &mut PeerPart> {
        let forwarder = self.forwarder.as_mut().map(|forwarder| &mut forwarder.part);
        let others = [&mut self.hub, &mut self.relay, &mut self.agent];
        forwarder.into_iter().chain(others.into_iter().flatten())
    }

    /// `ROLE=PID` of every process on the route, for the load client.
    pub(crate) fn watched(&mut self, bed: &Bed<'_>) -> anyhow::Result<Vec<String>> {
        let mut watched = self
            .parts()
            .map(|part| part.watched())
            .collect::<anyhow::Result<Vec<_>>>()?;
        watched.push(bed.upstream_watched()?);
        Ok(watched)
    }

    /// # Errors
    /// A process has ended by itself.
    pub(crate) fn alive(&mut self) -> anyhow::Result<()> {
        self.parts().try_for_each(PeerPart::alive)
    }

    pub(crate) async fn end(mut self) {
        for part in self.parts() {
            part.end().await;
        }
    }
}
