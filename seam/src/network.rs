//! Networks that count as one client in rate limits and fair caller_limit.

use std::net::{IpAddr, Ipv6Addr};

/// The network of an address: itself for IPv4, its /64 for IPv6, all of which one machine can have.
#[must_use]
pub fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => {
            let bits = v6.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(bits).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_of_one_machine_is_one_address() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8::1:2:3:4"), "2001:db8::");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
