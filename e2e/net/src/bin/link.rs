//! `fairlead-e2e-link SOCKET SEED SITE_DEVICE HUB_DEVICE`: makes two TUN devices in the network namespace it is started in and
//! is the link between them, wherever they are moved to. `e2e/net/README.md` says how to change it while it runs.

use std::env;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use anyhow::{Context, bail};
use fairlead_e2e_net::control::{self, Order, Toward};
use fairlead_e2e_net::emulator::Direction;
use tokio::task::spawn_blocking;
use tokio_tun::Tun;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [socket, seed, site, hub] = words.as_slice() else {
        bail!("usage: fairlead-e2e-link SOCKET SEED SITE_DEVICE HUB_DEVICE");
    };
    let seed: u64 = seed.parse().context("SEED")?;
    let listener =
        UnixListener::bind(socket).with_context(|| format!("cannot listen on {socket}"))?;
    let (site, hub) = (device(site)?, device(hub)?);
    let to_hub = Direction::start(Arc::clone(&site), Arc::clone(&hub), seed);
    let to_site = Direction::start(hub, site, seed.wrapping_add(1));
    // Whoever started it waits for this.
    eprintln!("ready");
    let serving = spawn_blocking(move || {
        control::serve(&listener, |Order { toward, shape }| {
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
