//! Client's end of raw TCP: a local port that programs without TLS use. Its connections reach the upstream's raw services.
//!
//! Each peer has a process of its own for this, and TLS from there to the hub: `fairlead forward`, frp's visitor, the client of chisel or
//! wstunnel. The others have no such program; there the role `copy` stands for it, with nothing to do but TLS.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::Context as _;
use tokio::time;

use super::{
    ATTEMPT_DEADLINE, POLL_INTERVAL, Peer, READY_DEADLINE,
    bed::{Bed, Ports},
    copying,
    kind::Kind,
    konnectivity,
    part::PeerPart,
};
use crate::{
    launch::Spec,
    load::{TcpTarget, TcpWork},
    ports,
    way::Way,
};

/// Name of this role in figures of processor time.
pub(crate) const FORWARDER: &str = "forwarder";

pub(crate) struct Forwarder {
    pub(crate) part: PeerPart,
    /// Local port for plain TCP.
    pub(crate) address: SocketAddr,
}

impl Peer {
    /// The one-hop proxy of raw TCP, with TLS for its clients.
    pub(super) fn tcp_proxy(bed: &Bed<'_>) -> anyhow::Result<Self> {
        let port = ports::free()?;
        let spec = copy(bed, "proxy", port, &bed.raw.plain.to_string(), None)
            .arg("--cert")
            .arg(&bed.pems.cert)
            .arg("--key")
            .arg(&bed.pems.key);
        let mut part = PeerPart::new("proxy", spec);
        part.start(bed.launcher)?;
        let mut peer = Self::bare(Kind::Proxy, bed);
        peer.hub = Some(part);
        peer.ports = Some(Ports {
            hub: port,
            link: port,
            tls: port,
            plain: port,
            raw: port,
        });
        Ok(peer)
    }

    /// Starts the forwarder and waits until bytes come through.
    pub(super) async fn forward(&mut self, bed: &Bed<'_>) -> anyhow::Result<()> {
        let port = ports::free()?;
        let mut part = PeerPart::new(FORWARDER, self.forwarder_spec(bed, port)?);
        if let (Some(hub), Some(ports)) = (&mut self.hub, &self.ports) {
            hub.listening(ports.hub).await?;
        }
        part.start(bed.launcher)?;
        part.listening(port).await?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        self.forwarder = Some(Forwarder { part, address });
        self.echoes(address).await
    }

    fn forwarder_spec(&self, bed: &Bed<'_>, port: u16) -> anyhow::Result<Spec> {
        let kind = self.kind;
        let name = format!("{}-forwarder", kind.name());
        let ca_file = Some(bed.raw.ca_file.as_path());
        let through = bed.raw.secure.to_string();
        let ports = self.ports.context("it has no ports");
        Ok(match kind {
            Kind::Direct => copy(bed, &name, port, &through, ca_file),
            Kind::Fairlead | Kind::FairleadBefore => {
                let way = self.tls.as_ref().context("there is no way")?;
                fairlead(bed, kind, name, port, way)?
            }
            Kind::Frp => copying::frp_visitor(bed, ports?.hub, port)?,
            Kind::Chisel => copying::chisel_client(bed, &ports?, port)?,
            Kind::Wstunnel => copying::wstunnel_client(bed, &ports?, port)?,
            Kind::Konnectivity => {
                let socket = konnectivity::socket_of(self.tls.as_ref())?;
                let spec = copy(bed, &name, port, &through, ca_file);
                spec.arg("--via").arg(socket)
            }
            Kind::Rathole => copy(bed, &name, port, &local(ports?.raw), ca_file),
            Kind::Proxy | Kind::Remotedialer => {
                copy(bed, &name, port, &local(ports?.raw), Some(&bed.pems.ca))
            }
        })
    }

    async fn echoes(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let target = TcpTarget::new(address, TcpWork::Echo);
        let echoed = time::timeout(READY_DEADLINE, async {
            loop {
                self.alive()?;
                match time::timeout(ATTEMPT_DEADLINE, target.once()).await {
                    Ok(Ok(())) => return anyhow::Ok(()),
                    _ => time::sleep(POLL_INTERVAL).await,
                }
            }
        })
        .await;
        let Err(_) = echoed else {
            return echoed?;
        };
        let step = format!("wait until an echo comes through, {READY_DEADLINE:?} long");
        let last = self.parts().next();
        Err(last.map_or_else(|| anyhow::anyhow!(step.clone()), |part| part.failed(&step)))
    }
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn copy(bed: &Bed<'_>, name: &str, port: u16, to: &str, ca_file: Option<&Path>) -> Spec {
    let spec = bed.launcher.own(name, "copy");
    let spec = spec.args(["--listen", &port.to_string(), "--to", to]);
    match ca_file {
        Some(file) => spec.arg("--ca-file").arg(file),
        None => spec,
    }
}

/// `fairlead forward` with the login of the hub's admin.
fn fairlead(bed: &Bed<'_>, kind: Kind, name: String, port: u16, way: &Way) -> anyhow::Result<Spec> {
    let host = way.server_name.as_deref().and_then(|it| it.split_once('.'));
    let (cluster, _) = host.context("the way leads to no cluster")?;
    let ca_file = way.ca_file.as_ref().context("the hub has no TLS")?;
    Ok(Spec::new(name, bed.built.fairlead(kind)?)
        .args(["forward", cluster, &format!("{port}:{}", bed.raw.plain)])
        .env("FAIRLEAD_URL", &way.url)
        .env("FAIRLEAD_TOKEN_FILE", &way.token_file)
        .env("FAIRLEAD_CA_FILE", ca_file))
}
