//! Load benchmarks of Fairlead against direct access, a one-hop proxy and other tunnels.
//!
//! Every role is a process of its own, so that its processor time can be read and it can be pinned. `run` starts
//! all of them. Apart from `agents`, no role depends on Fairlead's internals.

mod agents;
mod api;
mod apiserver;
mod ceilings;
mod copy;
mod delivery;
mod dial;
mod hops;
mod hub;
mod launch;
mod link;
mod load;
mod machine;
mod network;
mod peers;
mod ports;
mod proc;
mod proxy;
mod registry;
mod relay;
mod report;
mod results;
mod run;
mod scenarios;
mod serve;
mod soak;
mod stats;
mod tls;
mod upstream;
mod watchers;
mod way;

use std::{num::NonZero, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "fairlead-bench",
    version,
    about = "Load benchmarks of Fairlead and its peers"
)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// A stand-in API server: TLS, HTTP/1.1, prepared answers, a sink for uploads
    Upstream(upstream::Args),
    /// The baseline: a one-hop reverse proxy, TLS on both legs, pooled connections
    Proxy(proxy::Args),
    /// A closed-loop or open-loop load client; prints one JSON object
    Load(load::Args),
    /// A copier of TCP connections, with TLS on either leg
    Copy(copy::Args),
    /// Many real Fairlead agents in one process
    Agents(agents::Args),
    /// A relay between agent and hub: slow, cut or silent
    Relay(relay::Args),
    /// A link between two TUN devices that can be long, slow and lossy
    Link(link::Args),
    /// Many watches and events for all of them; prints one JSON object
    Watch(watchers::Args),
    /// Every scenario against Fairlead and its peers: figures, a table, plots
    Run(run::Args),
    /// Processor time of the registry's operations in a hub with 1,000 and with 10,000 clusters
    Registry(registry::Args),
    /// Cost of delivery: a hub with 10,000 clusters and 50 bundles, and an agent in a real cluster
    Delivery(delivery::Args),
    /// Processor time of direct and of forwarded requests, with two hubs
    Hops(hops::Args),
    /// Instructions, allocations, locks and system calls of a request, under callgrind
    Ceilings(ceilings::Args),
    /// Prints the figures of a run as tables for a README
    Table(report::Args),
    /// Draws the plots that a Markdown page links, from the tables of the same page
    Plots(report::page::Args),
    /// Finds leaks: an hour of requests through Fairlead, many of them aborted
    Soak(soak::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().role) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> anyhow::Result<ExitCode> {
    match role {
        Role::Upstream(args) => runtime()?.block_on(upstream::run(args))?,
        Role::Proxy(args) => runtime()?.block_on(proxy::run(args))?,
        Role::Load(args) => runtime()?.block_on(load::run(args))?,
        Role::Copy(args) => runtime()?.block_on(copy::run(args))?,
        Role::Agents(args) => runtime()?.block_on(agents::run(args))?,
        Role::Relay(args) => runtime()?.block_on(relay::run(args))?,
        Role::Link(args) => single()?.block_on(link::run(args))?,
        Role::Watch(args) => runtime()?.block_on(watchers::run(args))?,
        Role::Table(args) => report::run(&args)?,
        Role::Plots(args) => report::page::run(&args)?,
        // A child ends with the thread that started it (see `launch`), which must therefore be this one.
        Role::Run(args) => return single()?.block_on(run::run(args)),
        Role::Registry(args) => return single()?.block_on(registry::run(args)),
        Role::Delivery(args) => return single()?.block_on(delivery::run(args)),
        Role::Hops(args) => return single()?.block_on(hops::run(args)),
        Role::Ceilings(args) => return single()?.block_on(ceilings::run(args)),
        Role::Soak(args) => return single()?.block_on(soak::run(args)),
    }
    Ok(ExitCode::SUCCESS)
}

/// On one core a single-threaded runtime is the cheapest. With more cores, no role may be the bottleneck.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    match std::thread::available_parallelism().map_or(1, NonZero::get) {
        1 => single(),
        _ => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build(),
    }
}

fn single() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
