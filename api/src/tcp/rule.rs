//! A rule of `--allow-connect`: hosts and ports that the hub may connect to.

use std::{fmt, net::IpAddr, str::FromStr};

use super::{HostName, TcpHost, TcpTarget, TcpTargetError, host_name, is_reserved, port_number};

/// Limit of a rule in bytes: the longest host, and ports.
const MAX_RULE_BYTES: usize = 512;

/// A rule of `--allow-connect`, like `db.shop:5432`, `*.shop.svc:80,8000-8100`, `10.0.0.0/8:*` or `[fd00::]/8:443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRule {
    host: RuleHost,
    /// Allowed ports; empty: each port.
    ports: Vec<PortRange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleHost {
    Name(HostName),
    /// All names that end with a dot and this name.
    Below(HostName),
    Address(IpAddr),
    /// Addresses with the same first bits.
    Network(IpAddr, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PortRange {
    first: u16,
    last: u16,
}

/// Reason to refuse a text as a [`ConnectRule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectRuleError {
    /// The rule is longer than its limit.
    #[error("it is longer than {MAX_RULE_BYTES} bytes")]
    TooLong,
    /// No `:PORTS` at the end.
    #[error("expected HOST:PORTS, *.SUFFIX:PORTS, ADDRESS/BITS:PORTS or [IPV6]:PORTS")]
    NoPort,
    /// Invalid ports.
    #[error(
        "ports are numbers from 1 to 65535 and ranges like 8000-8100, separated by commas, or `*`"
    )]
    Ports,
    /// Invalid host.
    #[error("{0}")]
    Host(TcpTargetError),
    /// Invalid length of a network's prefix.
    #[error("a network has a length of 0 to 32 bits, of IPv6 0 to 128, and no bits behind it")]
    Network,
}

impl ConnectRule {
    /// True if the rule allows connections to this name, whatever its addresses are.
    #[must_use]
    pub fn allows_name(&self, name: &HostName, port: u16) -> bool {
        let is_host = match &self.host {
            RuleHost::Name(own) => own == name,
            RuleHost::Below(suffix) => {
                let label = name.as_str().strip_suffix(suffix.as_str());
                label.is_some_and(|it| it.len() > 1 && it.ends_with('.'))
            }
            RuleHost::Address(_) | RuleHost::Network(..) => false,
        };
        is_host && self.allows_port(port)
    }

    /// True if the rule allows connections to this address. A network never covers a [reserved](is_reserved) one.
    #[must_use]
    pub fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        let is_host = match self.host {
            RuleHost::Name(_) | RuleHost::Below(_) => false,
            RuleHost::Address(own) => {
                own == address && !(self.ports.is_empty() && is_reserved(own))
            }
            RuleHost::Network(network, bits) => {
                first_bits(address, bits) == Some(network) && !is_reserved(address)
            }
        };
        is_host && self.allows_port(port)
    }

    /// True if the rule has exactly this address, or the name `localhost` for a loopback address, and names its ports.
    #[must_use]
    pub fn names_exactly(&self, host: &TcpHost, address: IpAddr, port: u16) -> bool {
        let is_named = match &self.host {
            RuleHost::Address(own) => *own == address,
            RuleHost::Name(name) => {
                name.as_str() == "localhost"
                    && address.is_loopback()
                    && matches!(host, TcpHost::Name(requested) if requested == name)
            }
            RuleHost::Below(_) | RuleHost::Network(..) => false,
        };
        is_named && !self.ports.is_empty() && self.allows_port(port)
    }

    /// True if the rule may allow this target. A name is resolved to decide about a rule with an address.
    #[must_use]
    pub fn may_allow(&self, target: &TcpTarget) -> bool {
        match target.host() {
            TcpHost::Name(name) => {
                let by_address = matches!(self.host, RuleHost::Address(_) | RuleHost::Network(..));
                self.allows_name(name, target.port())
                    || (by_address && self.allows_port(target.port()))
            }
            TcpHost::Address(address) => self.allows_address(*address, target.port()),
        }
    }

    fn allows_port(&self, port: u16) -> bool {
        let contains = |range: &PortRange| (range.first..=range.last).contains(&port);
        self.ports.is_empty() || self.ports.iter().any(contains)
    }
}

impl FromStr for ConnectRule {
    type Err = ConnectRuleError;

    fn from_str(text: &str) -> Result<Self, ConnectRuleError> {
        if text.len() > MAX_RULE_BYTES {
            return Err(ConnectRuleError::TooLong);
        }
        let (host, ports) = text.rsplit_once(':').ok_or(ConnectRuleError::NoPort)?;
        Ok(ConnectRule {
            host: rule_host(host)?,
            ports: match ports {
                "*" => Vec::new(),
                ports => ports.split(',').map(port_range).collect::<Result<_, _>>()?,
            },
        })
    }
}

impl fmt::Display for ConnectRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            RuleHost::Name(name) => write!(f, "{}:", name.as_str())?,
            RuleHost::Below(name) => write!(f, "*.{}:", name.as_str())?,
            RuleHost::Address(address) => write!(f, "{}:", TcpHost::Address(*address))?,
            RuleHost::Network(address, bits) => {
                write!(f, "{}/{bits}:", TcpHost::Address(*address))?;
            }
        }
        if self.ports.is_empty() {
            return f.write_str("*");
        }
        for (at, PortRange { first, last }) in self.ports.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Rules of a list whose parts were separated by commas: a part of ports alone belongs to the rule before it.
#[must_use]
pub fn joined_ports(parts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for part in parts {
        let is_ports = !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit() || it == b'-');
        match rules.last_mut() {
            Some(rule) if is_ports => {
                rule.push(',');
                rule.push_str(&part);
            }
            _ => rules.push(part),
        }
    }
    rules
}

fn rule_host(text: &str) -> Result<RuleHost, ConnectRuleError> {
    if let Some(suffix) = text.strip_prefix("*.") {
        return name(suffix).map(RuleHost::Below);
    }
    if let Some((address, bits)) = text.split_once('/') {
        let bare = address
            .strip_prefix('[')
            .and_then(|it| it.strip_suffix(']'));
        let address: IpAddr = bare
            .unwrap_or(address)
            .parse()
            .map_err(|_| ConnectRuleError::Network)?;
        let is_plain =
            bits == "0" || !bits.starts_with('0') && bits.bytes().all(|it| it.is_ascii_digit());
        let bits = bits
            .parse()
            .ok()
            .filter(|_| is_plain && bare.is_some() == address.is_ipv6());
        let bits = bits.filter(|&bits| first_bits(address, bits) == Some(address));
        return bits.map_or(Err(ConnectRuleError::Network), |bits| {
            Ok(RuleHost::Network(address, bits))
        });
    }
    match text.parse::<TcpHost>() {
        Ok(TcpHost::Address(address)) => Ok(RuleHost::Address(address)),
        Ok(TcpHost::Name(name)) => Ok(RuleHost::Name(name)),
        Err(TcpTargetError::Host) if !text.starts_with('[') => name(text).map(RuleHost::Name),
        Err(error) => Err(ConnectRuleError::Host(error)),
    }
}

/// A name as a person writes it.
fn name(text: &str) -> Result<HostName, ConnectRuleError> {
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    host_name(&text).map_err(ConnectRuleError::Host)
}

fn port_range(text: &str) -> Result<PortRange, ConnectRuleError> {
    let port = |text| {
        port_number(text)
            .map(|it| it.get())
            .map_err(|_| ConnectRuleError::Ports)
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    match first <= last {
        true => Ok(PortRange { first, last }),
        false => Err(ConnectRuleError::Ports),
    }
}

/// The address with all but its first bits cleared; `None` if it has fewer bits.
fn first_bits(address: IpAddr, bits: u8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => {
            let cleared = 32_u32.checked_sub(bits.into())?;
            let mask = u32::MAX.checked_shl(cleared).unwrap_or(0);
            Some(IpAddr::V4((it.to_bits() & mask).into()))
        }
        IpAddr::V6(it) => {
            let cleared = 128_u32.checked_sub(bits.into())?;
            let mask = u128::MAX.checked_shl(cleared).unwrap_or(0);
            Some(IpAddr::V6((it.to_bits() & mask).into()))
        }
    }
}

#[cfg(test)]
mod tests;
