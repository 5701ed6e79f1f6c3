//! An emulated link between two network namespaces: two TUN devices and a forwarder with delay, rate, loss or
//! silence. `e2e/net/README.md` lists its parameters. It needs Linux and root.

pub mod control;
pub mod emulator;
pub mod shape;

use std::{os::unix::net::UnixListener, path::Path, sync::Arc};

use anyhow::Context;
use tokio::task::spawn_blocking;
use tokio_tun::Tun;

use self::{control::LinkOrder, emulator::LinkDirection};
pub use self::{
    control::{LinkControl, Toward},
    shape::{LinkShape, Random},
};

/// Creates the two devices in the current network namespace, prints `ready` on standard error, and forwards
/// packets until the control socket fails. The devices may be moved to other namespaces.
///
/// # Errors
/// A device or the socket cannot be created, or the socket fails.
pub async fn run(socket: &Path, seed: u64, site: &str, hub: &str) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot listen on {}", socket.display()))?;
    let (site, hub) = (device(site)?, device(hub)?);
    let to_hub = LinkDirection::start(Arc::clone(&site), Arc::clone(&hub), seed);
    let to_site = LinkDirection::start(hub, site, seed.wrapping_add(1));
    // The parent process waits for this line.
    eprintln!("ready");
    let serving = spawn_blocking(move || {
        control::serve(&listener, |LinkOrder { toward, shape }| {
            if toward != Toward::Site {
                to_hub.set(shape);
            }
            if toward != Toward::Hub {
                to_site.set(shape);
            }
        })
    });
    serving.await?
}

fn device(name: &str) -> anyhow::Result<Arc<Tun>> {
    let made = Tun::builder().name(name).build();
    let made = made.with_context(|| format!("TUN device {name}"))?;
    let device = made.into_iter().next();
    Ok(Arc::new(device.context("no TUN device")?))
}
