//! Addresses that no rule with a name, a suffix or a network reaches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses where clouds serve credentials of a machine, outside of the link-local networks.
const METADATA_V4: [Ipv4Addr; 3] = [
    // Azure.
    Ipv4Addr::new(168, 63, 129, 16),
    // Alibaba.
    Ipv4Addr::new(100, 100, 100, 200),
    // Oracle.
    Ipv4Addr::new(192, 0, 0, 192),
];
/// AWS.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// True for loopback, link-local, unspecified, multicast and broadcast addresses, and for the metadata services of clouds.
#[must_use]
pub fn is_reserved(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => {
            it.is_loopback()
                || it.octets().first() == Some(&0)
                || it.is_link_local()
                || it.is_multicast()
                || it.is_broadcast()
                || METADATA_V4.contains(&it)
        }
        IpAddr::V6(it) => {
            it.is_loopback()
                || it.is_unspecified()
                || it.is_unicast_link_local()
                || it.is_multicast()
                || it == METADATA_V6
                || embedded_v4(it).is_some_and(|it| is_reserved(it.into()))
        }
    }
}

/// The IPv4 address that a translator or tunnel makes of this one: NAT64 (RFC 6052), 6to4 (RFC 3056), and the deprecated
/// compatible form (RFC 4291).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.octets() {
        [0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        | [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        | [0x20, 0x02, a, b, c, d, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_machine_and_cloud_are_reserved() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "100.100.100.200",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            assert!(is_reserved(address.parse().unwrap()), "{address}");
        }
        for address in [
            "10.0.0.1",
            "192.168.1.1",
            "8.8.8.8",
            "fd00::1",
            "2001:db8::1",
            "64:ff9b::808:808",
        ] {
            assert!(!is_reserved(address.parse().unwrap()), "{address}");
        }
    }
}
