//! Trusted proxies in front of a process, and the client addresses that they report.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use tokio::net::TcpStream;

use crate::proxy_header::{self, ProxyHeaderError};

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

/// Proxies and load balancers in front of a process.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// Networks of trusted proxies.
    pub trusted: Vec<Network>,
    /// Each connection of a trusted proxy begins with a PROXY header.
    pub proxy_protocol: bool,
}

impl Proxies {
    /// True for the address of a trusted proxy.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Address of the client of a new connection from `peer`. Reads the PROXY header of a trusted proxy.
    ///
    /// # Errors
    /// The header is missing, malformed or late, or came from an address without trust.
    pub async fn client_of(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
    ) -> Result<SocketAddr, ProxyHeaderError> {
        if !self.proxy_protocol {
            return Ok(peer);
        }
        match self.trusts(peer.ip()) {
            true => proxy_header::read(socket, peer).await,
            false => proxy_header::refuse(socket).await.map(|()| peer),
        }
    }

    /// Address of the client by the values of `X-Forwarded-For`, which a trusted proxy sent.
    ///
    /// Each proxy appends the address of its peer. So the client is the rightmost address without trust: text to the
    /// left of it may be forged. `None`: the last proxy has reported nothing, and is the client itself.
    pub fn forwarded_for<'a>(
        &self,
        values: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> Option<SocketAddr> {
        let mut client = None;
        for value in values.rev() {
            for text in value.rsplit(|&byte| byte == b',') {
                // A proxy reported no address, so its own is the last that is known.
                let Some(address) = address_of(text) else {
                    return client;
                };
                client = Some(address);
                if !self.trusts(address.ip()) {
                    return client;
                }
            }
        }
        client
    }
}

/// An address with or without a port; port 0 if it is not known.
fn address_of(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    let address = address.map(|ip: IpAddr| SocketAddr::new(ip.to_canonical(), 0));
    address.or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests;
