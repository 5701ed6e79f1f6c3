//! remotedialer: a library; hub and agent around it are our own small Go program, as its examples do it.

use super::{Bed, Plan, Ports};
use crate::{
    launch::Spec,
    way::{Legs, Way},
};

pub(super) fn plan(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    let program = bed.built.program("remotedialer", "remotedialer")?;
    let listen = |port: u16| format!("127.0.0.1:{port}");
    let hub = Spec::new("remotedialer-hub", &program)
        .args(["hub", "-listen", &listen(ports.hub)])
        .args(["-plain", &listen(ports.plain)])
        .arg("-cert")
        .arg(&bed.pems.cert)
        .arg("-key")
        .arg(&bed.pems.key)
        .args(["-upstream", &bed.upstream.url])
        .args(["-plain-upstream", &bed.upstream.plain_url])
        .arg("-upstream-ca")
        .arg(&bed.upstream.ca_file);
    Ok(Plan {
        hub,
        agent: agents(bed, ports.link, 1)?,
        // People and agents come by the same port, as in Fairlead.
        tls: Way {
            ca_file: Some(bed.pems.ca.clone()),
            ..bed.way(Legs::Tls, Some(ports.hub))
        },
        plain: bed.way(Legs::Plain, Some(ports.plain)),
    })
}

/// So many agents in one process.
pub(super) fn agents(bed: &Bed<'_>, link: u16, count: u32) -> anyhow::Result<Spec> {
    let program = bed.built.program("remotedialer", "remotedialer")?;
    Ok(Spec::new("remotedialer-agent", program)
        .args(["agent", "-connect"])
        .arg(format!("wss://127.0.0.1:{link}/connect"))
        .arg("-ca")
        .arg(&bed.pems.ca)
        .arg("-count")
        .arg(count.to_string()))
}
