//! Plain TCP through a cluster: the target of a connection, its path on the hub, and the rules of a site operator.
//!
//! A target has exactly one spelling. Two parsers that read one text differently open a way around the rules, so every other
//! spelling is refused, never repaired.

mod reserved;
mod rule;

pub use reserved::is_reserved;
pub use rule::{ConnectRule, ConnectRuleError, joined_ports};

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU16,
    str::FromStr,
};

use crate::{ClusterId, percent};

/// Subprotocol of the WebSocket that carries one TCP connection between a client and the hub.
///
/// Bytes are binary messages of at most 64 KiB. An empty binary message ends one direction (half-close). A close frame with
/// code 1000 follows both half-closes; any other close is a failure, and its reason begins with a code like `FL-1422`.
pub const TCP_PROTOCOL: &str = "v1.tcp.fairlead.io";
/// Prefix of the path of a connection, before the id of its cluster.
pub const TCP_PATH_PREFIX: &str = "/v1/clusters/";
/// Part of the path of a connection between cluster and target.
const TCP_PATH_INFIX: &str = "/tcp/";
/// Limit of a host name in bytes (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Target of a TCP connection: a host in the cluster and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TcpTarget {
    host: TcpHost,
    port: NonZeroU16,
}

/// Host of a [`TcpTarget`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TcpHost {
    /// A DNS name in lower case without a dot at its end; it is resolved in the cluster.
    Name(HostName),
    /// An address. An IPv4 address is never in its IPv6 form.
    Address(IpAddr),
}

/// A DNS name in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(Box<str>);

impl HostName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reason to refuse a text as a [`TcpTarget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TcpTargetError {
    /// No `:PORT` at the end.
    #[error("expected HOST:PORT")]
    NoPort,
    /// The port is not a decimal number from 1 to 65535 without leading zeros.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// The host is neither a name nor an address.
    #[error(
        "the host is not a DNS name in lower case, an IPv4 address or an IPv6 address in brackets"
    )]
    Host,
    /// An address in another spelling than the usual one.
    #[error("the address is not in its usual spelling")]
    Spelling,
}

impl TcpTarget {
    /// The host.
    #[must_use]
    pub const fn host(&self) -> &TcpHost {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.get()
    }

    /// The target of input by a person or a local program: any case, a dot at the end, an address in any valid spelling.
    ///
    /// # Errors
    /// [`TcpTargetError`]
    pub fn of_input(host: &str, port: u16) -> Result<Self, TcpTargetError> {
        let port = NonZeroU16::new(port).ok_or(TcpTargetError::Port)?;
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let host = match bare.unwrap_or(host).parse::<IpAddr>() {
            Ok(address) if bare.is_none() || address.is_ipv6() => {
                TcpHost::Address(address.to_canonical())
            }
            Ok(_) => return Err(TcpTargetError::Host),
            Err(_) => {
                let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                TcpHost::Name(host_name(&name)?)
            }
        };
        Ok(TcpTarget { host, port })
    }

    /// The path on the hub that connects to this target in `cluster`.
    #[must_use]
    pub fn path(&self, cluster: &ClusterId) -> String {
        let target = percent::encode(&self.to_string()).replace("%3A", ":");
        format!("{TCP_PATH_PREFIX}{cluster}{TCP_PATH_INFIX}{target}")
    }

    /// Reads the last segment of a path. Brackets and colons may be percent-encoded, nothing else.
    ///
    /// # Errors
    /// [`TcpTargetError`]
    pub fn of_segment(segment: &str) -> Result<Self, TcpTargetError> {
        let mut parts = segment.split('%');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (escape, rest) = part.split_at_checked(2).ok_or(TcpTargetError::Host)?;
            text.push(match escape {
                "3A" | "3a" => ':',
                "5B" | "5b" => '[',
                "5D" | "5d" => ']',
                _ => return Err(TcpTargetError::Host),
            });
            text.push_str(rest);
        }
        text.parse()
    }
}

/// Cluster and target in the path of a TCP connection; `None` for any other path. Neither is checked.
#[must_use]
pub fn split_tcp_path(path: &str) -> Option<(&str, &str)> {
    let (cluster, target) = path.strip_prefix(TCP_PATH_PREFIX)?.split_once('/')?;
    Some((cluster, target.strip_prefix("tcp/")?))
}

impl FromStr for TcpTarget {
    type Err = TcpTargetError;

    fn from_str(text: &str) -> Result<Self, TcpTargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TcpTargetError::NoPort)?;
        Ok(TcpTarget {
            host: host.parse()?,
            port: port_number(port)?,
        })
    }
}

impl fmt::Display for TcpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for TcpHost {
    type Err = TcpTargetError;

    fn from_str(text: &str) -> Result<Self, TcpTargetError> {
        if let Some(bracketed) = text.strip_prefix('[') {
            let inside = bracketed.strip_suffix(']').ok_or(TcpTargetError::Host)?;
            let address: Ipv6Addr = inside.parse().map_err(|_| TcpTargetError::Host)?;
            // Another spelling, and an IPv4 address in IPv6 form, are two texts for one address.
            let is_usual = address.to_string() == inside && address.to_ipv4_mapped().is_none();
            return match is_usual {
                true => Ok(TcpHost::Address(address.into())),
                false => Err(TcpTargetError::Spelling),
            };
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(TcpHost::Address(address.into()));
        }
        host_name(text).map(TcpHost::Name)
    }
}

impl fmt::Display for TcpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpHost::Name(name) => f.write_str(name.as_str()),
            TcpHost::Address(IpAddr::V4(address)) => address.fmt(f),
            TcpHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A DNS name, which no resolver takes for an address.
fn host_name(text: &str) -> Result<HostName, TcpTargetError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        label.len() <= MAX_LABEL_BYTES
            && ends.is_some_and(|(first, last)| letter(*first) && letter(*last))
            && bytes
                .iter()
                .all(|&it| letter(it) || matches!(it, b'-' | b'_'))
    };
    if text.len() > MAX_NAME_BYTES || !text.split('.').all(is_label) {
        return Err(TcpTargetError::Host);
    }
    // `127.1`, `2130706433`, `0x7f.1` and `0177.0.0.1` are addresses for the C library.
    let last = text.rsplit('.').next().unwrap_or(text);
    let is_number = last.bytes().all(|it| it.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match is_number {
        true => Err(TcpTargetError::Spelling),
        false => Ok(HostName(text.into())),
    }
}

/// A decimal number from 1 to 65535 in its one spelling.
fn port_number(text: &str) -> Result<NonZeroU16, TcpTargetError> {
    let is_plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|_| is_plain);
    port.and_then(NonZeroU16::new).ok_or(TcpTargetError::Port)
}

#[cfg(test)]
mod tests;
