//! Tests of the built `fairlead` with a real kube-apiserver and kubectl over realistic networks: proxies,
//! load balancers, distance, loss and faults. `make net` runs them as root.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod between;
mod boxes;
mod diagnosis;
mod fault;
mod intercepted;
mod ipv6;
mod left;
mod many;
mod rate;
mod rig;
mod status;
mod stopped;
mod survive;
mod wan;
mod work;

/// The setting `name`; by default `short`, or `long` where `NET_LONG` is set.
fn size(name: &str, short: u64, long: u64) -> anyhow::Result<u64> {
    match fairlead_e2e::setting(name) {
        Some(text) => Ok(text.parse()?),
        None if fairlead_e2e::setting("NET_LONG").is_some() => Ok(long),
        None => Ok(short),
    }
}
