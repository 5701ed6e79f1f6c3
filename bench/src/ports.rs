//! Fixed ports for programs that cannot report a chosen one, or must return on the same.
//!
//! They lie below the kernel's range of ephemeral ports, so that thousands of outgoing connections take none
//! of them. `e2e/kube/cluster` takes its ports from 20000 on, so the free ones lie below those, too.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use anyhow::ensure;

const FIRST_FREE_PORT: u16 = 12_000;
const END_FREE_PORTS: u16 = 14_500;
/// First port of agents that need a port each, up to the kernel's range. These ports are reused.
pub(crate) const FIRST_AGENT_PORT: u16 = 22_500;

/// All ports that [`free`] returns.
pub(crate) const FREE: Range<u16> = FIRST_FREE_PORT..END_FREE_PORTS;

static NEXT: AtomicU16 = AtomicU16::new(FIRST_FREE_PORT);

/// Returns an unused port of 127.0.0.1, each only once.
///
/// # Errors
/// No port is left.
pub(crate) fn free() -> anyhow::Result<u16> {
    loop {
        let port = NEXT.fetch_add(1, Relaxed);
        ensure!(port < END_FREE_PORTS, "no ports are left");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_given_out_once() {
        let one = free().unwrap();
        let other = free().unwrap();
        assert_ne!(one, other);
    }
}
