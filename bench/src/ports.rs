//! Fixed ports for programs that cannot choose one and say which, or must come back on the same. They lie below those that
//! the kernel gives to outgoing connections, so that thousands of these take none away between a look and its use.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use anyhow::ensure;

const FIRST: u16 = 20_000;
const END: u16 = 22_500;
/// From here on up to the kernel's are those of agents that need a port each. They are used again and again.
pub(crate) const CROWD: u16 = END;

/// All that [`free`] gives out.
pub(crate) const FREE: Range<u16> = FIRST..END;

static NEXT: AtomicU16 = AtomicU16::new(FIRST);

/// A port of 127.0.0.1 that nobody has now and that is given out only once.
///
/// # Errors
/// If there is none left.
pub(crate) fn free() -> anyhow::Result<u16> {
    loop {
        let port = NEXT.fetch_add(1, Relaxed);
        ensure!(port < END, "no ports are left");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once() {
        let one = free().unwrap();
        let other = free().unwrap();
        assert_ne!(one, other);
    }
}
