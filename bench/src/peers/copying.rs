//! The peers that copy raw TCP: a port of the hub stands for the upstream, and the client's own TLS goes through to it. They
//! know no HTTP, no user and no choice of an agent at the hub, so they do less than what they are compared with.

use std::{path::Path, process::Command};

use anyhow::{Context as _, ensure};

use super::{Bed, Plan, Ports, write_secret};
use crate::{launch::Spec, way::Legs};

/// Between hub and agent of one peer in one run; it guards nothing.
const TOKEN: &str = "bench";

fn plan(bed: &Bed<'_>, ports: &Ports, hub: Spec, agent: Spec) -> Plan {
    Plan {
        hub,
        agent,
        tls: bed.way(Legs::Tls, Some(ports.tls)),
        plain: bed.way(Legs::Plain, Some(ports.plain)),
    }
}

/// What stands for the upstream: its name, the hub's port, and the upstream's address.
fn forwards<'a>(bed: &'a Bed<'_>, ports: &Ports) -> [(&'static str, u16, &'a str); 2] {
    [
        ("tls", ports.tls, bed.upstream_address(Legs::Tls)),
        ("plain", ports.plain, bed.upstream_address(Legs::Plain)),
    ]
}

/// Streams of all clients in one TLS connection (yamux).
pub(super) fn frp(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let dir = bed.folder("frp")?;
    let (hub_file, agent_file) = (dir.join("frps.toml"), dir.join("frpc.toml"));
    let pems = &bed.pems;
    write_secret(
        &hub_file,
        &format!(
            "bindAddr = '127.0.0.1'\nbindPort = {}\nproxyBindAddr = '127.0.0.1'\nauth.token = '{TOKEN}'\nlog.level = 'warn'\n\
             transport.tls.force = true\ntransport.tls.certFile = '{}'\ntransport.tls.keyFile = '{}'\n",
            ports.hub,
            pems.cert.display(),
            pems.key.display()
        ),
    )?;
    let mut agent = frp_client(bed, ports.link);
    for (name, port, upstream) in forwards(bed, ports) {
        let (host, local) = upstream.split_once(':').context("host:port")?;
        agent += &format!(
            "[[proxies]]\nname = '{name}'\ntype = 'tcp'\nlocalIP = '{host}'\nlocalPort = {local}\nremotePort = {port}\n"
        );
    }
    write_secret(&agent_file, &agent)?;
    let hub = Spec::new("frp-hub", bed.built.program("frp", "frps")?).arg("-c");
    let agent = Spec::new("frp-agent", bed.built.program("frp", "frpc")?).arg("-c");
    Ok(plan(bed, ports, hub.arg(hub_file), agent.arg(agent_file)))
}

fn frp_client(bed: &Bed<'_>, link: u16) -> String {
    format!(
        "serverAddr = '127.0.0.1'\nserverPort = {link}\nloginFailExit = false\nauth.token = '{TOKEN}'\nlog.level = 'warn'\n\
         transport.tls.trustedCaFile = '{}'\ntransport.tls.serverName = 'localhost'\n",
        bed.pems.ca.display()
    )
}

/// Streams of all clients in one TLS connection (SSH in a WebSocket).
pub(super) fn chisel(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let program = bed.built.program("chisel", "chisel")?;
    let auth = format!("{TOKEN}:{TOKEN}");
    let hub = Spec::new("chisel-hub", &program)
        .args(["server", "--reverse", "--host", "127.0.0.1", "--port"])
        .arg(ports.hub.to_string())
        .args(["--auth", &auth, "--tls-cert"])
        .arg(&bed.pems.cert)
        .arg("--tls-key")
        .arg(&bed.pems.key);
    let mut agent = Spec::new("chisel-agent", &program)
        .args(["client", "--auth", &auth, "--tls-ca"])
        .arg(&bed.pems.ca)
        .arg(format!("https://127.0.0.1:{}", ports.link));
    for (_, port, upstream) in forwards(bed, ports) {
        agent = agent.arg(format!("R:127.0.0.1:{port}:{upstream}"));
    }
    Ok(plan(bed, ports, hub, agent))
}

/// A TLS connection for each client's.
pub(super) fn rathole(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let program = bed.built.program("rathole", "rathole")?;
    let dir = bed.folder("rathole")?;
    let bundle = dir.join("hub.p12");
    pkcs12(bed, &bundle)?;
    let (hub_file, agent_file) = (dir.join("server.toml"), dir.join("client.toml"));
    let mut hub = format!(
        "[server]\nbind_addr = '127.0.0.1:{}'\ndefault_token = '{TOKEN}'\n[server.transport]\ntype = 'tls'\n\
         [server.transport.tls]\npkcs12 = '{}'\npkcs12_password = '{TOKEN}'\n",
        ports.hub,
        bundle.display()
    );
    let mut agent = format!(
        "[client]\nremote_addr = '127.0.0.1:{}'\ndefault_token = '{TOKEN}'\n[client.transport]\ntype = 'tls'\n\
         [client.transport.tls]\ntrusted_root = '{}'\nhostname = 'localhost'\n",
        ports.link,
        bed.pems.ca.display()
    );
    for (name, port, upstream) in forwards(bed, ports) {
        hub += &format!("[server.services.{name}]\nbind_addr = '127.0.0.1:{port}'\n");
        agent += &format!("[client.services.{name}]\nlocal_addr = '{upstream}'\n");
    }
    write_secret(&hub_file, &hub)?;
    write_secret(&agent_file, &agent)?;
    let hub = Spec::new("rathole-hub", &program).arg("--server");
    let agent = Spec::new("rathole-agent", &program).arg("--client");
    Ok(plan(bed, ports, hub.arg(hub_file), agent.arg(agent_file)))
}

/// The one format of keys that rathole's TLS library takes.
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

/// A TLS connection (and a WebSocket) for each client's.
pub(super) fn wstunnel(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let program = bed.built.program("wstunnel", "wstunnel")?;
    let hub = Spec::new("wstunnel-hub", &program)
        .args(["server", "--tls-certificate"])
        .arg(&bed.pems.cert)
        .arg("--tls-private-key")
        .arg(&bed.pems.key)
        .arg(format!("wss://127.0.0.1:{}", ports.hub));
    let mut agent = Spec::new("wstunnel-agent", &program).arg("client");
    for (_, port, upstream) in forwards(bed, ports) {
        agent = agent
            .arg("-R")
            .arg(format!("tcp://127.0.0.1:{port}:{upstream}"));
    }
    let agent = agent.arg(format!("wss://127.0.0.1:{}", ports.link));
    Ok(plan(bed, ports, hub, agent))
}
