//! konnectivity: server and agent of apiserver-network-proxy, HTTP CONNECT on a Unix socket at the server, as a kube-apiserver
//! uses it, and gRPC with TLS on both sides between the two. The client's own TLS goes through to the upstream.

use super::{Bed, Plan, Ports};
use crate::{
    launch::Spec,
    ports,
    way::{Legs, Way},
};

pub(super) fn plan(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let dir = bed.folder("konnectivity")?;
    let socket = dir.join("k.sock");
    let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
    let pem = |name: &str, file: &std::path::Path| flag(name, &file.display());
    let hub = Spec::new(
        "konnectivity-hub",
        bed.built.program("konnectivity", "server")?,
    )
    .args(["--mode=http-connect", "--server-port=0"])
    .arg(pem("uds-name", &socket))
    .arg(flag("agent-bind-address", &"127.0.0.1"))
    .arg(flag("agent-port", &ports.hub))
    .arg(flag("admin-port", &ports::free()?))
    .arg(flag("health-bind-address", &"127.0.0.1"))
    .arg(flag("health-port", &ports::free()?))
    .arg(pem("cluster-ca-cert", &bed.pems.ca))
    .arg(pem("cluster-cert", &bed.pems.cert))
    .arg(pem("cluster-key", &bed.pems.key));
    let agent = Spec::new(
        "konnectivity-agent",
        bed.built.program("konnectivity", "agent")?,
    )
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
        hub,
        agent,
        tls: through(Legs::Tls),
        plain: through(Legs::Plain),
    })
}
