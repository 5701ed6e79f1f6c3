//! A hub with a given number of idle agents.
//!
//! All agents run in one process where the limit of open files allows it. Each has a link and an identity of
//! its own.

use anyhow::{Context as _, bail};

use super::{
    bed::Bed,
    census::Census,
    copying::{self, TOKEN},
    fairlead,
    kind::Kind,
    konnectivity,
    part::{PeerPart, write_secret},
    remotedialer,
};
use crate::{
    launch::Spec,
    ports::{self, FIRST_AGENT_PORT},
    way::Legs,
};

pub(crate) struct Crowd {
    pub(crate) hub: PeerPart,
    pub(crate) agents: Vec<PeerPart>,
    pub(crate) port: u16,
    census: Census,
}

impl Crowd {
    /// # Errors
    /// The peer is missing.
    pub(crate) fn of(kind: Kind, bed: &Bed<'_>, count: u16) -> anyhow::Result<Self> {
        let port = ports::free()?;
        let on_ports = |(hub, agents)| (hub, vec![agents], Census::Ports { count });
        let on_page = |(hub, agents, census)| (hub, vec![agents], census);
        let (hub, agents, census) = match kind {
            Kind::Fairlead | Kind::FairleadBefore => fairlead::crowd(kind, bed, port, count)?,
            Kind::Remotedialer => on_page(remotedialer::crowd(bed, port, count)?),
            Kind::Konnectivity => on_page(konnectivity::crowd(bed, port, count)?),
            Kind::Frp => on_ports(frp(bed, port, count)?),
            Kind::Chisel => on_ports(chisel(bed, port, count)?),
            Kind::Rathole => on_ports(rathole(bed, port, count)?),
            Kind::Wstunnel => on_ports(wstunnel(bed, port, count)?),
            Kind::Direct | Kind::Proxy => bail!("it has no agents"),
        };
        Ok(Self {
            hub: PeerPart::new("hub", hub),
            agents: agents
                .into_iter()
                .map(|spec| PeerPart::new("agents", spec))
                .collect(),
            port,
            census,
        })
    }

    /// Agents that are connected now. A hub that does not answer has none.
    pub(crate) async fn there(&self) -> u64 {
        self.census.count().await
    }
}

/// frpc runs one client per file of a folder in one process.
fn frp(bed: &Bed<'_>, port: u16, count: u16) -> anyhow::Result<(Spec, Spec)> {
    let dir = bed.folder("frp-crowd")?;
    let agents = dir.join("agents");
    std::fs::create_dir(&agents)?;
    let (host, local) = upstream(bed)?;
    for number in 0..count {
        let text = format!(
            "user = 'a{number}'\n{}[[proxies]]\nname = 'plain'\ntype = 'tcp'\nlocalIP = '{host}'\nlocalPort = {local}\nremotePort = {}\n",
            copying::frp_client(bed, port),
            FIRST_AGENT_PORT + number
        );
        write_secret(&agents.join(format!("{number}.toml")), &text)?;
    }
    let hub = copying::frp_hub(bed, port, &dir)?;
    let agents_spec = Spec::new("frp-agents", bed.built.program("frp", "frpc")?);
    Ok((hub, agents_spec.arg("--config_dir").arg(agents)))
}

fn upstream<'a>(bed: &'a Bed<'_>) -> anyhow::Result<(&'a str, &'a str)> {
    let address = bed.upstream_address(Legs::Plain);
    address.split_once(':').context("host:port")
}

fn chisel(bed: &Bed<'_>, port: u16, count: u16) -> anyhow::Result<(Spec, Spec)> {
    let agents = Spec::new("chisel-agents", bed.built.program("chisel", "agents")?)
        .args(["-server", &format!("https://127.0.0.1:{port}")])
        .arg("-ca")
        .arg(&bed.pems.ca)
        .args(["-auth", &format!("{TOKEN}:{TOKEN}")])
        .args(["-first", &FIRST_AGENT_PORT.to_string()])
        .args(["-count", &count.to_string()])
        .args(["-to", bed.upstream_address(Legs::Plain)]);
    Ok((copying::chisel_hub(bed, port)?, agents))
}

/// One client with many services. Each service has its own control connection, like a separate client.
fn rathole(bed: &Bed<'_>, port: u16, count: u16) -> anyhow::Result<(Spec, Spec)> {
    let to = bed.upstream_address(Legs::Plain);
    let services = (0..count).map(|number| (format!("s{number}"), FIRST_AGENT_PORT + number, to));
    let (hub, agents) = copying::rathole_pair(bed, port, port, services)?;
    Ok((hub, agents))
}

/// One client with many reverse tunnels, each with its own connection.
fn wstunnel(bed: &Bed<'_>, port: u16, count: u16) -> anyhow::Result<(Spec, Spec)> {
    let to = bed.upstream_address(Legs::Plain);
    let forwards = (0..count).map(|number| (FIRST_AGENT_PORT + number, to));
    copying::wstunnel_pair(bed, port, port, forwards)
}
