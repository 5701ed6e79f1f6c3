//! Trusted proxies in front of the hub, and their forwarding headers.

use std::{net::IpAddr, str::FromStr};

use http::{HeaderMap, header};

/// A network, like `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// The text is not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an address or a network like 10.0.0.0/8")]
pub struct BadNetwork;

impl FromStr for Network {
    type Err = BadNetwork;
    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits.parse().map_err(|_| BadNetwork)?)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(|_| BadNetwork)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(BadNetwork);
        }
        Ok(Network { first, bits })
    }
}

impl Network {
    /// True if the network contains `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(it)) => {
                let differ = first.to_bits() ^ it.to_bits();
                differ.checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(it)) => {
                let differ = first.to_bits() ^ it.to_bits();
                differ.checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The hub's external URL according to a trusted proxy; `None` from any other peer.
pub(crate) fn outside(trusted: &[Network], from: IpAddr, headers: &HeaderMap) -> Option<String> {
    if !trusted.iter().any(|network| network.contains(from)) {
        return None;
    }
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let scheme = text("x-forwarded-proto").filter(|it| matches!(*it, "http" | "https"))?;
    let host = text("x-forwarded-host").or_else(|| text(header::HOST.as_str()))?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
    let good = !host.is_empty() && host.len() <= 260 && host.bytes().all(plain);
    good.then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_network_contains_exactly_its_addresses() {
        for (network, address, has) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("::/0", "2001:db9::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "192.0.2.1", false),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(
                network.contains(address.parse().unwrap()),
                has,
                "{network:?} {address}"
            );
        }
        for bad in ["", "10.0.0.0/33", "10.0.0.0/", "x/8", "::/129", "10.0.0/8"] {
            assert!(bad.parse::<Network>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_defines_the_external_url() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let outside_url = |from: &str, proto: &'static str, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
            headers.insert(header::HOST, HeaderValue::from_static(host));
            outside(&trusted, from.parse().unwrap(), &headers)
        };
        let inside = outside_url("10.1.2.3", "https", "syn.example:8443");
        assert_eq!(inside.as_deref(), Some("https://syn.example:8443"));
        assert_eq!(outside_url("192.0.2.1", "https", "syn.example"), None);
        assert_eq!(outside_url("10.1.2.3", "javascript", "syn.example"), None);
        assert_eq!(outside_url("10.1.2.3", "https", "syn.example/\"x"), None);
    }
}
