//! Fixed ports for programs that cannot choose one and say which, or must come back on the same. They lie below those that
//! the kernel gives to outgoing connections, so that thousands of these take none away between a look and its use.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use anyhow::{Context as _, ensure};

const FIRST: u16 = 20_000;
const END: u16 = 32_700;

static NEXT: AtomicU16 = AtomicU16::new(FIRST);

/// A port of 127.0.0.1 that nobody has now and that is given out only once.
///
/// # Errors
/// If there is none left.
pub(crate) fn free() -> anyhow::Result<u16> {
    range(1)
}

/// The first of so many ports in a row.
///
/// # Errors
/// As [`free`].
pub(crate) fn range(count: u16) -> anyhow::Result<u16> {
    loop {
        let first = NEXT
            .fetch_update(Relaxed, Relaxed, |first| first.checked_add(count))
            .ok()
            .context("no ports are left")?;
        ensure!(first.saturating_add(count) <= END, "no ports are left");
        let mut row = first..first + count;
        if row.all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()) {
            return Ok(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once_and_not_while_someone_has_it() {
        let one = free().unwrap();
        let other = free().unwrap();
        assert_ne!(one, other);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, NEXT.load(Relaxed)));
        let row = range(3).unwrap();
        assert!(taken.is_err() || row > taken.unwrap().local_addr().unwrap().port());
    }
}
