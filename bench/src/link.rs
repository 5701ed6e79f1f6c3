//! Role `link`: the emulated link of `e2e`, for [`BenchNetwork`](crate::network::BenchNetwork).

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Control socket
    socket: PathBuf,
    /// Seed of the random losses and delays
    seed: u64,
    /// TUN device of the site's side, created by this role
    site: String,
    /// TUN device of the hub's side
    hub: String,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    fairlead_e2e::link::run(&args.socket, args.seed, &args.site, &args.hub).await
}
