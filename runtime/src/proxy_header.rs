//! The header of the PROXY protocol, versions 1 and 2, by which a load balancer reports the client of a connection.
//!
//! Source: "The PROXY protocol", versions 1 & 2, HAProxy Technologies.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

/// Deadline for the whole header.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// First bytes of a header of version 2.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// First bytes of a header of version 1.
const V1_PREFIX: &[u8] = b"PROXY ";
/// Longest header of version 1, with its line end.
const MAX_V1_BYTES: usize = 107;
/// Longest header of version 2. Additional fields of balancers are a few hundred bytes.
const MAX_V2_BYTES: usize = 4096;
/// Bytes that are looked at in one step.
const PEEK_BYTES: usize = 256;
/// Bytes of version 2 before the addresses.
const V2_FIXED_BYTES: usize = 16;

/// The header of a connection cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// A trusted proxy sent something else.
    #[error("a trusted proxy sent no PROXY header")]
    Missing,
    /// The header is damaged.
    #[error("a trusted proxy sent a malformed PROXY header: {0}")]
    Malformed(&'static str),
    /// The header came from an address without trust.
    #[error("the PROXY header comes from an address that is no trusted proxy")]
    Untrusted,
    /// The header did not arrive in time.
    #[error("a trusted proxy sent no complete PROXY header within 10 seconds")]
    Timeout,
    /// The connection ended without a byte, as health checks of balancers do.
    #[error("the connection ended before its PROXY header")]
    Closed,
}

/// Result of a look at the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// All bytes belong to the header, and more do.
    Incomplete,
    /// Length of the header. `None`: the connection is the proxy's own.
    Complete(usize, Option<SocketAddr>),
}

/// Reads the header of a connection from `proxy`, and no byte after it. Returns the address of the client.
///
/// # Errors
/// All but [`ProxyHeaderError::Untrusted`].
pub(crate) async fn read(
    socket: &mut TcpStream,
    proxy: SocketAddr,
) -> Result<SocketAddr, ProxyHeaderError> {
    let reading = async {
        let (mut head, mut peeked) = (Vec::new(), [0; PEEK_BYTES]);
        loop {
            let count = socket.peek(&mut peeked).await.unwrap_or_default();
            let known = head.len();
            head.extend_from_slice(peeked.get(..count).unwrap_or_default());
            if count == 0 {
                return Err(match head.is_empty() {
                    true => ProxyHeaderError::Closed,
                    false => ProxyHeaderError::Malformed("it is cut off"),
                });
            }
            let progress = parse(&head)?;
            let end = match progress {
                Progress::Incomplete => head.len(),
                Progress::Complete(length, _) => length,
            };
            let of_header = peeked.get_mut(..end.saturating_sub(known));
            let consumed = socket.read_exact(of_header.unwrap_or_default()).await;
            consumed.map_err(|_: io::Error| ProxyHeaderError::Malformed("it is cut off"))?;
            if let Progress::Complete(_, client) = progress {
                return Ok(client.unwrap_or(proxy));
            }
        }
    };
    let read = timeout(HEADER_DEADLINE, reading).await;
    read.unwrap_or(Err(ProxyHeaderError::Timeout))
}

/// Looks at the first bytes of a connection that may have no header.
///
/// # Errors
/// [`ProxyHeaderError::Untrusted`] if it has one. TLS and HTTP themselves refuse one that arrives in pieces.
pub(crate) async fn refuse(socket: &TcpStream) -> Result<(), ProxyHeaderError> {
    let mut first = [0; V2_SIGNATURE.len()];
    let peeked = timeout(HEADER_DEADLINE, socket.peek(&mut first)).await;
    let count = peeked.map_or(0, Result::unwrap_or_default);
    let first = first.get(..count).unwrap_or_default();
    match first.starts_with(V1_PREFIX) || first == V2_SIGNATURE {
        true => Err(ProxyHeaderError::Untrusted),
        false => Ok(()),
    }
}

fn parse(head: &[u8]) -> Result<Progress, ProxyHeaderError> {
    let begins_as = |start: &[u8]| head.starts_with(start) || start.starts_with(head);
    if begins_as(V2_SIGNATURE) {
        version_2(head)
    } else if begins_as(V1_PREFIX) {
        version_1(head)
    } else {
        Err(ProxyHeaderError::Missing)
    }
}

fn version_1(head: &[u8]) -> Result<Progress, ProxyHeaderError> {
    use ProxyHeaderError::Malformed;
    let window = head.get(..MAX_V1_BYTES).unwrap_or(head);
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return match head.len() < MAX_V1_BYTES {
            true => Ok(Progress::Incomplete),
            false => Err(Malformed("its line is too long")),
        };
    };
    let line = window.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let line = line.ok_or(Malformed("its line does not end with CR LF"))?;
    let text = line.strip_prefix(V1_PREFIX);
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    let fields: Vec<&str> = text
        .ok_or(Malformed("its line is no text"))?
        .split(' ')
        .collect();
    let client = match fields.as_slice() {
        // The rest of the line has no meaning.
        ["UNKNOWN", ..] => None,
        ["TCP4", addresses @ ..] => Some(v1_addresses::<Ipv4Addr>(addresses)?),
        ["TCP6", addresses @ ..] => Some(v1_addresses::<Ipv6Addr>(addresses)?),
        _ => return Err(Malformed("its protocol is neither TCP4, TCP6 nor UNKNOWN")),
    };
    Ok(Progress::Complete(end + 1, client))
}

/// Source of `source destination source-port destination-port`.
fn v1_addresses<A>(fields: &[&str]) -> Result<SocketAddr, ProxyHeaderError>
where
    A: FromStr + Into<IpAddr>,
{
    use ProxyHeaderError::Malformed;
    let &[source, destination, source_port, destination_port] = fields else {
        return Err(Malformed(
            "its line does not have two addresses and two ports",
        ));
    };
    let address = |text: &str| {
        text.parse::<A>()
            .map_err(|_| Malformed("an address is invalid"))
    };
    let port = |text: &str| {
        let is_canonical = text == "0" || !text.starts_with(['0', '+']);
        let port = text.parse::<u16>().ok().filter(|_| is_canonical);
        port.ok_or(Malformed("a port is invalid"))
    };
    address(destination)?;
    port(destination_port)?;
    Ok(SocketAddr::new(address(source)?.into(), port(source_port)?))
}

fn version_2(head: &[u8]) -> Result<Progress, ProxyHeaderError> {
    use ProxyHeaderError::Malformed;
    let Some((fixed, addresses)) = head.split_first_chunk::<V2_FIXED_BYTES>() else {
        return Ok(Progress::Incomplete);
    };
    let &[.., command, family, high, low] = fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if V2_FIXED_BYTES + length > MAX_V2_BYTES {
        return Err(Malformed("it is longer than 4 KiB"));
    }
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(Malformed("its version or command is unknown")),
    };
    let Some(addresses) = addresses.get(..length) else {
        return Ok(Progress::Incomplete);
    };
    let client = match family {
        _ if is_local => None,
        0x00 => None,
        0x11 => Some(v2_ipv4(addresses).ok_or(Malformed("its addresses are cut off"))?),
        0x21 => Some(v2_ipv6(addresses).ok_or(Malformed("its addresses are cut off"))?),
        _ => return Err(Malformed("its protocol is not TCP over IPv4 or IPv6")),
    };
    Ok(Progress::Complete(V2_FIXED_BYTES + length, client))
}

/// Source of the addresses and ports of version 2; additional fields follow them.
fn v2_ipv4(addresses: &[u8]) -> Option<SocketAddr> {
    let (source, rest) = addresses.split_first_chunk::<4>()?;
    let (_destination, rest) = rest.split_first_chunk::<4>()?;
    v2_source(Ipv4Addr::from(*source).into(), rest)
}

fn v2_ipv6(addresses: &[u8]) -> Option<SocketAddr> {
    let (source, rest) = addresses.split_first_chunk::<16>()?;
    let (_destination, rest) = rest.split_first_chunk::<16>()?;
    v2_source(Ipv6Addr::from(*source).into(), rest)
}

fn v2_source(source: IpAddr, ports: &[u8]) -> Option<SocketAddr> {
    let &[high, low, _, _, ..] = ports else {
        return None;
    };
    Some(SocketAddr::new(source, u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests;
