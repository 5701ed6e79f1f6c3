//! Peers that copy raw TCP. A port of the hub stands for the upstream, and the client's TLS goes through to
//! it.
//!
//! They know no HTTP, no users and no choice of an agent, so they do less work than Fairlead.

use std::{path::Path, process::Command};

use anyhow::{Context as _, ensure};

use super::{
    bed::{Bed, Plan, Ports},
    part::write_secret,
};
use crate::{launch::Spec, way::Legs};

/// Secret between hub and agent of one peer in one run. It protects nothing.
pub(super) const TOKEN: &str = "bench";

fn plan(bed: &Bed<'_>, ports: &Ports, hub: Spec, agent: Spec) -> Plan {
    Plan {
        hub,
        agent,
        tls: bed.way(Legs::Tls, Some(ports.tls)),
        plain: bed.way(Legs::Plain, Some(ports.plain)),
    }
}

/// The forwarded services: name, port of the hub, address of the upstream.
fn forwards<'a>(bed: &'a Bed<'_>, ports: &Ports) -> [(&'static str, u16, &'a str); 2] {
    [
        ("tls", ports.tls, bed.upstream_address(Legs::Tls)),
        ("plain", ports.plain, bed.upstream_address(Legs::Plain)),
    ]
}

/// Streams of all clients in one TLS connection (yamux).
pub(super) fn frp(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let dir = bed.folder("frp")?;
    let file = dir.join("frpc.toml");
    let mut text = frp_client(bed, ports.link);
    for (name, port, upstream) in forwards(bed, ports) {
        let (host, local) = upstream.split_once(':').context("host:port")?;
        text += &format!(
            "[[proxies]]\nname = '{name}'\ntype = 'tcp'\nlocalIP = '{host}'\nlocalPort = {local}\nremotePort = {port}\n"
        );
    }
    // Only visitors reach this one.
    let (host, port) = (bed.raw.plain.ip(), bed.raw.plain.port());
    text += &format!(
        "[[proxies]]\nname = 'raw'\ntype = 'stcp'\nsecretKey = '{TOKEN}'\nlocalIP = '{host}'\nlocalPort = {port}\n"
    );
    write_secret(&file, &text)?;
    let agent = Spec::new("frp-agent", bed.built.program("frp", "frpc")?).arg("-c");
    Ok(plan(
        bed,
        ports,
        frp_hub(bed, ports.hub, &dir)?,
        agent.arg(file),
    ))
}

pub(super) fn frp_hub(bed: &Bed<'_>, port: u16, dir: &Path) -> anyhow::Result<Spec> {
    let file = dir.join("frps.toml");
    let text = format!(
        "bindAddr = '127.0.0.1'\nbindPort = {port}\nproxyBindAddr = '127.0.0.1'\nauth.token = '{TOKEN}'\nlog.level = 'warn'\n\
         transport.tls.force = true\ntransport.tls.certFile = '{}'\ntransport.tls.keyFile = '{}'\n",
        bed.pems.cert.display(),
        bed.pems.key.display()
    );
    write_secret(&file, &text)?;
    Ok(Spec::new("frp-hub", bed.built.program("frp", "frps")?)
        .arg("-c")
        .arg(file))
}

pub(super) fn frp_client(bed: &Bed<'_>, link: u16) -> String {
    format!(
        "serverAddr = '127.0.0.1'\nserverPort = {link}\nloginFailExit = false\nauth.token = '{TOKEN}'\nlog.level = 'warn'\n\
         transport.tls.trustedCaFile = '{}'\ntransport.tls.serverName = 'localhost'\n",
        bed.pems.ca.display()
    )
}

/// The visitor of a person: a local port for the agent's `stcp` proxy.
pub(super) fn frp_visitor(bed: &Bed<'_>, hub: u16, port: u16) -> anyhow::Result<Spec> {
    let file = bed.folder("frp-visitor")?.join("frpc.toml");
    let visitor = format!(
        "[[visitors]]\nname = 'visitor'\ntype = 'stcp'\nserverName = 'raw'\nsecretKey = '{TOKEN}'\nbindAddr = '127.0.0.1'\nbindPort = {port}\n"
    );
    write_secret(&file, &(frp_client(bed, hub) + &visitor))?;
    let spec = Spec::new("frp-forwarder", bed.built.program("frp", "frpc")?);
    Ok(spec.arg("-c").arg(file))
}

/// Streams of all clients in one TLS connection (SSH in a WebSocket).
pub(super) fn chisel(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let mut agent = chisel_end(bed, "chisel-agent", ports.link)?;
    for (_, port, upstream) in forwards(bed, ports) {
        agent = agent.arg(format!("R:127.0.0.1:{port}:{upstream}"));
    }
    agent = agent.arg(format!("R:127.0.0.1:{}:{}", ports.raw, bed.raw.plain));
    Ok(plan(bed, ports, chisel_hub(bed, ports.hub)?, agent))
}

/// The client of a person: a local port for a port of the hub.
pub(super) fn chisel_client(bed: &Bed<'_>, ports: &Ports, port: u16) -> anyhow::Result<Spec> {
    let forward = format!("127.0.0.1:{port}:127.0.0.1:{}", ports.raw);
    Ok(chisel_end(bed, "chisel-forwarder", ports.hub)?.arg(forward))
}

fn chisel_end(bed: &Bed<'_>, name: &str, hub: u16) -> anyhow::Result<Spec> {
    Ok(Spec::new(name, bed.built.program("chisel", "chisel")?)
        .args(["client", "--auth", &format!("{TOKEN}:{TOKEN}"), "--tls-ca"])
        .arg(&bed.pems.ca)
        .arg(format!("https://127.0.0.1:{hub}")))
}

pub(super) fn chisel_hub(bed: &Bed<'_>, port: u16) -> anyhow::Result<Spec> {
    Ok(
        Spec::new("chisel-hub", bed.built.program("chisel", "chisel")?)
            .args(["server", "--reverse", "--host", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .args(["--auth", &format!("{TOKEN}:{TOKEN}"), "--tls-cert"])
            .arg(&bed.pems.cert)
            .arg("--tls-key")
            .arg(&bed.pems.key),
    )
}

/// One TLS connection per client connection.
pub(super) fn rathole(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    // The hub has no TLS for clients, so theirs goes through to the upstream.
    let raw = bed.raw.secure.to_string();
    let services = forwards(bed, ports).into_iter();
    let services = services
        .chain([("raw", ports.raw, raw.as_str())])
        .map(|(name, port, to)| (name.to_owned(), port, to));
    let (hub, agent) = rathole_pair(bed, ports.hub, ports.link, services)?;
    Ok(plan(bed, ports, hub, agent))
}

/// Each service is a name, a port of the hub and the address that it stands for.
pub(super) fn rathole_pair<'a>(
    bed: &Bed<'_>,
    hub_port: u16,
    link: u16,
    services: impl Iterator<Item = (String, u16, &'a str)>,
) -> anyhow::Result<(Spec, Spec)> {
    let program = bed.built.program("rathole", "rathole")?;
    let dir = bed.folder("rathole")?;
    let bundle = dir.join("hub.p12");
    pkcs12(bed, &bundle)?;
    let (hub_file, agent_file) = (dir.join("server.toml"), dir.join("client.toml"));
    let mut hub = format!(
        "[server]\nbind_addr = '127.0.0.1:{hub_port}'\ndefault_token = '{TOKEN}'\n[server.transport]\ntype = 'tls'\n\
         [server.transport.tls]\npkcs12 = '{}'\npkcs12_password = '{TOKEN}'\n",
        bundle.display()
    );
    let mut agent = format!(
        "[client]\nremote_addr = '127.0.0.1:{link}'\ndefault_token = '{TOKEN}'\n[client.transport]\ntype = 'tls'\n\
         [client.transport.tls]\ntrusted_root = '{}'\nhostname = 'localhost'\n",
        bed.pems.ca.display()
    );
    for (name, port, upstream) in services {
        hub += &format!("[server.services.{name}]\nbind_addr = '127.0.0.1:{port}'\n");
        agent += &format!("[client.services.{name}]\nlocal_addr = '{upstream}'\n");
    }
    write_secret(&hub_file, &hub)?;
    write_secret(&agent_file, &agent)?;
    let hub = Spec::new("rathole-hub", &program).arg("--server");
    let agent = Spec::new("rathole-agent", &program).arg("--client");
    Ok((hub.arg(hub_file), agent.arg(agent_file)))
}

/// Converts keys to the one format that rathole's TLS library reads.
fn pkcs12(bed: &Bed<'_>, to: &Path) -> anyhow::Result<()> {
    let output = Command::new("openssl")
        .args(["pkcs12", "-export", "-passout", &format!("pass:{TOKEN}")])
        .arg("-in")
        .arg(&bed.pems.cert)
        .arg("-inkey")
        .arg(&bed.pems.key)
        .arg("-out")
        .arg(to)
        .output()
        .context("rathole's hub needs a PKCS#12 file, which `openssl` makes")?;
    ensure!(
        output.status.success(),
        "openssl pkcs12: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// One TLS connection (and WebSocket) per client connection.
pub(super) fn wstunnel(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let raw = bed.raw.plain.to_string();
    let forwards = forwards(bed, ports).into_iter();
    let forwards = forwards.map(|(_, port, to)| (port, to));
    let forwards = forwards.chain([(ports.raw, raw.as_str())]);
    let (hub, agent) = wstunnel_pair(bed, ports.hub, ports.link, forwards)?;
    Ok(plan(bed, ports, hub, agent))
}

/// The client of a person: a local port for a port of the hub.
pub(super) fn wstunnel_client(bed: &Bed<'_>, ports: &Ports, port: u16) -> anyhow::Result<Spec> {
    let program = bed.built.program("wstunnel", "wstunnel")?;
    Ok(Spec::new("wstunnel-forwarder", program)
        .args(["client", "-L"])
        .arg(format!("tcp://127.0.0.1:{port}:127.0.0.1:{}", ports.raw))
        .arg(format!("wss://127.0.0.1:{}", ports.hub)))
}

/// Each forward is a port of the hub and the address that it stands for.
pub(super) fn wstunnel_pair<'a>(
    bed: &Bed<'_>,
    hub_port: u16,
    link: u16,
    forwards: impl Iterator<Item = (u16, &'a str)>,
) -> anyhow::Result<(Spec, Spec)> {
    let program = bed.built.program("wstunnel", "wstunnel")?;
    let hub = Spec::new("wstunnel-hub", &program)
        .args(["server", "--tls-certificate"])
        .arg(&bed.pems.cert)
        .arg("--tls-private-key")
        .arg(&bed.pems.key)
        .arg(format!("wss://127.0.0.1:{hub_port}"));
    let mut agent = Spec::new("wstunnel-agent", &program).arg("client");
    for (port, upstream) in forwards {
        agent = agent
            .arg("-R")
            .arg(format!("tcp://127.0.0.1:{port}:{upstream}"));
    }
    Ok((hub, agent.arg(format!("wss://127.0.0.1:{link}"))))
}
