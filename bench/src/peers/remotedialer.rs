//! remotedialer is a library. Hub and agent around it are a small Go program of ours, written like its
//! examples.

use super::{
    bed::{Bed, Plan, Ports},
    census::Census,
};
use crate::{
    launch::Spec,
    ports,
    way::{Legs, Way},
};

pub(super) fn plan(bed: &Bed<'_>, ports: &Ports) -> anyhow::Result<Plan> {
    Ok(Plan {
        hub: hub(bed, ports.hub, ports.plain)?
            .args(["-raw", &listen(ports.raw)])
            .args(["-raw-upstream", &bed.raw.plain.to_string()]),
        agent: agents(bed, ports.link, 1)?,
        tls: front(bed, ports.hub),
        plain: bed.way(Legs::Plain, Some(ports.plain)),
    })
}

pub(super) fn crowd(bed: &Bed<'_>, port: u16, count: u16) -> anyhow::Result<(Spec, Spec, Census)> {
    let census = Census::Page {
        way: front(bed, port),
        path: "/sessions",
        word: "",
    };
    let hub = hub(bed, port, ports::free()?)?;
    Ok((hub, agents(bed, port, count)?, census))
}

/// Clients and agents use the same port, as in Fairlead.
fn front(bed: &Bed<'_>, port: u16) -> Way {
    Way {
        ca_file: Some(bed.pems.ca.clone()),
        ..bed.way(Legs::Tls, Some(port))
    }
}

fn hub(bed: &Bed<'_>, port: u16, plain: u16) -> anyhow::Result<Spec> {
    let program = bed.built.program("remotedialer", "remotedialer")?;
    Ok(Spec::new("remotedialer-hub", &program)
        .args(["hub", "-listen", &listen(port)])
        .args(["-plain", &listen(plain)])
        .arg("-cert")
        .arg(&bed.pems.cert)
        .arg("-key")
        .arg(&bed.pems.key)
        .args(["-upstream", &bed.upstream.url])
        .args(["-plain-upstream", &bed.upstream.plain_url])
        .arg("-upstream-ca")
        .arg(&bed.upstream.ca_file))
}

fn listen(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Runs many agents in one process.
fn agents(bed: &Bed<'_>, link: u16, count: u16) -> anyhow::Result<Spec> {
    let program = bed.built.program("remotedialer", "remotedialer")?;
    Ok(Spec::new("remotedialer-agent", program)
        .args(["agent", "-connect"])
        .arg(format!("wss://127.0.0.1:{link}/connect"))
        .arg("-ca")
        .arg(&bed.pems.ca)
        .arg("-count")
        .arg(count.to_string()))
}
