//! The compared programs: how each is started, according to its documentation, and how a request reaches it.
//!
//! There is always TLS between hub and agent. A program that is missing or does not start is reported and
//! stops nothing else.

mod bed;
mod built;
mod census;
mod copying;
mod crowd;
mod fairlead;
mod forwarder;
mod kind;
mod konnectivity;
mod part;
mod peer;
mod relayed;
mod remotedialer;

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use tokio::time;

use self::bed::{Plan, Ports};
pub(crate) use self::{
    bed::{Bed, Server},
    built::Built,
    census::number_behind,
    crowd::Crowd,
    fairlead::HubReady,
    forwarder::FORWARDER,
    kind::Kind,
    part::{PeerPart, write_secret},
    peer::Peer,
    relayed::{CUT, Link, SILENCE},
};
use crate::{
    ports,
    serve::{Ready, ready_file},
    way::{Legs, Way},
};

/// Deadline of the first request through a peer.
const READY_DEADLINE: Duration = Duration::from_secs(30);
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Peer {
    /// Starts the peer and waits until a request comes through.
    ///
    /// # Errors
    /// The peer is missing or does not start. The error is a sentence for the report.
    pub(crate) async fn start(kind: Kind, bed: &Bed<'_>, link: Link) -> anyhow::Result<Self> {
        let mut peer = Self::begin(kind, bed, link, None).await?;
        if kind.is_built() {
            peer.answers().await?;
        }
        Ok(peer)
    }

    /// Starts the peer with a local port for raw TCP, and waits until bytes come through.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) async fn start_for_tcp(kind: Kind, bed: &Bed<'_>) -> anyhow::Result<Self> {
        let mut peer = match kind {
            Kind::Proxy => Self::tcp_proxy(bed)?,
            _ => Self::begin(kind, bed, Link::Straight, Some(bed.raw.plain)).await?,
        };
        peer.forward(bed).await?;
        Ok(peer)
    }

    /// Starts the processes. Fairlead's site allows TCP connections to `tcp`.
    async fn begin(
        kind: Kind,
        bed: &Bed<'_>,
        link: Link,
        tcp: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        Ok(match kind {
            Kind::Direct => Self::bare(kind, bed),
            Kind::Proxy => Self::proxy(bed).await?,
            Kind::Fairlead | Kind::FairleadBefore => fairlead::start(kind, bed, link, tcp).await?,
            Kind::Remotedialer => {
                let plan = remotedialer::plan;
                Self::planned(kind, bed, link, plan).await?
            }
            Kind::Konnectivity => Self::planned(kind, bed, link, konnectivity::plan).await?,
            Kind::Frp => Self::planned(kind, bed, link, copying::frp).await?,
            Kind::Chisel => Self::planned(kind, bed, link, copying::chisel).await?,
            Kind::Rathole => Self::planned(kind, bed, link, copying::rathole).await?,
            Kind::Wstunnel => Self::planned(kind, bed, link, copying::wstunnel).await?,
        })
    }

    fn bare(kind: Kind, bed: &Bed<'_>) -> Self {
        Self {
            kind,
            tls: Some(bed.way(Legs::Tls, None)),
            plain: Some(bed.way(Legs::Plain, None)),
            hub: None,
            agent: None,
            relay: None,
            forwarder: None,
            ports: None,
            admin: None,
        }
    }

    async fn proxy(bed: &Bed<'_>) -> anyhow::Result<Self> {
        let dir = bed.folder("proxy")?;
        let upstream = &bed.upstream;
        let spec = bed
            .launcher
            .own("proxy", "proxy")
            .args(["--dir".into(), dir.clone().into_os_string()])
            .args(["--upstream", &upstream.url, "--upstream-ca"])
            .arg(upstream.ca_file.clone())
            .args(["--plain-upstream", &upstream.plain_url]);
        let mut part = PeerPart::new("proxy", spec);
        part.start(bed.launcher)?;
        let ready: Ready = part.ready(&ready_file("proxy", &dir)).await?;
        let mut peer = Self::bare(Kind::Proxy, bed);
        peer.tls = Some(Way {
            url: ready.url,
            ca_file: Some(ready.ca_file),
            ..bed.way(Legs::Tls, None)
        });
        peer.plain = Some(Way {
            url: ready.plain_url,
            ..bed.way(Legs::Plain, None)
        });
        peer.hub = Some(part);
        Ok(peer)
    }

    async fn planned(
        kind: Kind,
        bed: &Bed<'_>,
        link: Link,
        plan: fn(&Bed<'_>, &Ports) -> anyhow::Result<Plan>,
    ) -> anyhow::Result<Self> {
        let hub_port = ports::free()?;
        let (relay, link_port) = link.stretch(bed, kind, hub_port).await?;
        let ports = Ports {
            hub: hub_port,
            link: link_port,
            tls: ports::free()?,
            plain: ports::free()?,
            raw: ports::free()?,
        };
        let plan = plan(bed, &ports)?;
        let mut hub = PeerPart::new("hub", plan.hub);
        let mut agent = PeerPart::new("agent", plan.agent.at_site());
        hub.start(bed.launcher)?;
        hub.listening(hub_port).await?;
        agent.start(bed.launcher)?;
        Ok(Self {
            kind,
            tls: Some(plan.tls),
            plain: Some(plan.plain),
            hub: Some(hub),
            agent: Some(agent),
            relay,
            forwarder: None,
            ports: Some(ports),
            admin: None,
        })
    }

    async fn answers(&mut self) -> anyhow::Result<()> {
        let way = self.way(Legs::Tls).context("there is no way")?.clone();
        let target = way.target("/readyz")?;
        let answered = time::timeout(READY_DEADLINE, async {
            loop {
                self.alive()?;
                match time::timeout(ATTEMPT_DEADLINE, target.once()).await {
                    Ok(Ok(_)) => return anyhow::Ok(()),
                    _ => time::sleep(POLL_INTERVAL).await,
                }
            }
        })
        .await;
        answered.unwrap_or_else(|_| {
            let last = self.agent.as_ref().or(self.hub.as_ref());
            let step = format!("wait until a request comes through, {READY_DEADLINE:?} long");
            Err(last.map_or_else(|| anyhow::anyhow!(step.clone()), |part| part.failed(&step)))
        })
    }
}
