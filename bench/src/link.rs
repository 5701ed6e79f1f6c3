//! The emulated link of `e2e` as a role of this program, for [`Network`](crate::network::Network).

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where it takes orders
    socket: PathBuf,
    /// Of chance
    seed: u64,
    /// The TUN device of the site's side, to be made
    site: String,
    /// That of the hub's side
    hub: String,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    fairlead_e2e::link::run(&args.socket, args.seed, &args.site, &args.hub).await
}
