//! Figures from `/proc` about processes and sockets.

use std::ops::Range;

use anyhow::Context as _;

/// Resident memory, in bytes.
pub(crate) fn memory(pid: u32) -> anyhow::Result<u64> {
    status(pid, "VmRSS:")
}

/// Resident memory that no file backs, in bytes: without the pages of programs and libraries.
pub(crate) fn anonymous_memory(pid: u32) -> anyhow::Result<u64> {
    status(pid, "RssAnon:")
}

/// Highest resident memory since the start, in bytes.
pub(crate) fn peak_memory(pid: u32) -> anyhow::Result<u64> {
    status(pid, "VmHWM:")
}

fn status(pid: u32, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    bytes_of(&status, name).with_context(|| format!("{path} has no {name}"))
}

/// Value of a line of `/proc/PID/status`, in bytes.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Number of these ports that are listening.
pub(crate) fn listening(ports: Range<u16>) -> u64 {
    let table = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut open: Vec<u16> = listeners(&table("/proc/net/tcp"))
        .chain(listeners(&table("/proc/net/tcp6")))
        .filter(|port| ports.contains(port))
        .collect();
    open.sort_unstable();
    open.dedup();
    open.len() as u64
}

/// Parses lines of `sl local_address rem_address st ...`, with hexadecimal numbers; state 0A is LISTEN.
fn listeners(table: &str) -> impl Iterator<Item = u16> {
    table.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        let (_, port) = local.rsplit_once(':')?;
        (state == "0A").then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t     14 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(bytes_of(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(bytes_of("Name:\tx\n", "VmRSS:"), None);
        let own = std::process::id();
        assert!(memory(own).unwrap() > 0 && peak_memory(own).unwrap() > 0);
    }

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:5208 00000000:0000 0A 0\n   1: 0100007F:5209 0100007F:1234 01 0\n";
        assert_eq!(listeners(table).collect::<Vec<_>>(), [0x5208]);
    }
}
