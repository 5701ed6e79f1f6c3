//! konnectivity: server and agent of apiserver-network-proxy.
//!
//! The server takes HTTP CONNECT on a Unix socket, as a kube-apiserver uses it. Between server and agent
//! there is gRPC with mutual TLS. The client's own TLS goes through to the upstream.

use std::{fmt::Display, path::Path};

use anyhow::Context as _;

use super::{
    bed::{Bed, Plan, Ports},
    census::Census,
};
use crate::{
    launch::Spec,
    ports,
    way::{Legs, Way},
};

const NAME: &str = "konnectivity";

pub(super) fn plan(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let dir = bed.folder("konnectivity")?;
    let socket = dir.join("k.sock");
    let agent = Spec::new("konnectivity-agent", bed.built.program(NAME, "agent")?)
        .arg(flag("proxy-server-host", &"127.0.0.1"))
        .arg(flag("proxy-server-port", &ports.link))
        .arg(pem("ca-cert", &bed.pems.ca))
        .arg(pem("agent-cert", &bed.pems.cert))
        .arg(pem("agent-key", &bed.pems.key))
        .arg(flag("health-server-port", &ports::free()?))
        .arg(flag("admin-server-port", &ports::free()?));
    let through = |legs| Way {
        via: Some(socket.clone()),
        ..bed.way(legs, None)
    };
    Ok(Plan {
        hub: hub(bed, ports.hub, ports::free()?, &socket)?,
        agent,
        tls: through(Legs::Tls),
        plain: through(Legs::Plain),
    })
}

/// The Unix socket that takes CONNECT.
pub(super) fn socket_of(way: Option<&Way>) -> anyhow::Result<&Path> {
    let socket = way.and_then(|way| way.via.as_deref());
    socket.context("there is no socket for CONNECT")
}

pub(super) fn crowd(bed: &Bed<'_>, port: u16, count: u16) -> anyhow::Result<(Spec, Spec, Census)> {
    let socket = bed.folder("konnectivity-crowd")?.join("k.sock");
    let admin = ports::free()?;
    let agents = Spec::new("konnectivity-agents", bed.built.program(NAME, "agents")?)
        .args(["-port", &port.to_string(), "-count", &count.to_string()])
        .arg("-ca")
        .arg(&bed.pems.ca)
        .arg("-cert")
        .arg(&bed.pems.cert)
        .arg("-key")
        .arg(&bed.pems.key);
    let census = Census::Page {
        way: bed.way(Legs::Plain, Some(admin)),
        path: "/metrics",
        word: "konnectivity_network_proxy_server_ready_backend_connections",
    };
    Ok((hub(bed, port, admin, &socket)?, agents, census))
}

fn hub(bed: &Bed<'_>, port: u16, admin: u16, socket: &Path) -> anyhow::Result<Spec> {
    Ok(
        Spec::new("konnectivity-hub", bed.built.program(NAME, "server")?)
            .args(["--mode=http-connect", "--server-port=0"])
            .arg(pem("uds-name", socket))
            .arg(flag("agent-bind-address", &"127.0.0.1"))
            .arg(flag("agent-port", &port))
            .arg(flag("admin-port", &admin))
            .arg(flag("health-bind-address", &"127.0.0.1"))
            .arg(flag("health-port", &ports::free()?))
            .arg(pem("cluster-ca-cert", &bed.pems.ca))
            .arg(pem("cluster-cert", &bed.pems.cert))
            .arg(pem("cluster-key", &bed.pems.key)),
    )
}

fn flag(name: &str, value: &dyn Display) -> String {
    format!("--{name}={value}")
}

fn pem(name: &str, file: &Path) -> String {
    flag(name, &file.display())
}
