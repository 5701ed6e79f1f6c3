//! `fairlead-e2e-link SOCKET SEED SITE_DEVICE HUB_DEVICE` creates two TUN devices in its network namespace
//! and forwards packets between them. The devices may be moved to other namespaces. `e2e/net/README.md`
//! explains how to change the link while it runs.

use std::env;
use std::path::Path;

use anyhow::{Context, bail};
use fairlead_e2e::link;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [socket, seed, site, hub] = words.as_slice() else {
        bail!("usage: fairlead-e2e-link SOCKET SEED SITE_DEVICE HUB_DEVICE");
    };
    let seed: u64 = seed.parse().context("SEED")?;
    link::run(Path::new(socket), seed, site, hub).await
}
