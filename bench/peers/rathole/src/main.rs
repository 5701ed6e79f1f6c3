//! rathole's own `main`, less its signal handler: the bench ends processes outright.

use clap::Parser as _;
use rathole::{run, Cli};
use tokio::sync::broadcast;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("warn"))
        .with_ansi(false)
        .init();
    let (_shutdown, stopped) = broadcast::channel(1);
    run(Cli::parse(), stopped).await
}
