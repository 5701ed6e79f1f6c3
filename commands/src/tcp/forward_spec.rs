//! `[LOCAL:]HOST:PORT` of `fairlead forward`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fairlead_api::{
    Code, Failure,
    tcp::{TcpTarget, TcpTargetError},
};

use super::port_of;

/// A local address, and the target of its connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForwardSpec {
    pub(super) listen: SocketAddr,
    pub(super) target: TcpTarget,
}

impl ForwardSpec {
    /// Parses `HOST:PORT`, `LOCAL:HOST:PORT` or `ADDRESS:LOCAL:HOST:PORT`. LOCAL may be empty before its colon: port 0.
    ///
    /// # Errors
    /// `FL-4117`
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let invalid = |cause: &dyn std::fmt::Display| {
            Failure::because(Code::Usage, format_args!("{text:?}: {cause}"))
                .next("Write [LOCAL:]HOST:PORT, like 15432:db.shop:5432.")
        };
        let (local, target) = split(text).map_err(|error| invalid(&error))?;
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let listen = match local {
            None => loopback(target.port()),
            Some(local) => match port_of(local.strip_prefix(':').unwrap_or(local)) {
                Ok(port) => loopback(port),
                Err(_) => local.parse().map_err(|_| {
                    invalid(&"the local address is neither a port nor ADDRESS:PORT")
                })?,
            },
        };
        Ok(ForwardSpec { listen, target })
    }
}

/// The local address, and the target behind it.
fn split(text: &str) -> Result<(Option<&str>, TcpTarget), TcpTargetError> {
    let (before, port) = text.rsplit_once(':').ok_or(TcpTargetError::NoPort)?;
    let port = port_of(port)?;
    let (local, host) = match before.strip_suffix(']') {
        Some(open) => {
            let (local, _) = open.rsplit_once('[').ok_or(TcpTargetError::Host)?;
            (local, before.get(local.len()..).unwrap_or_default())
        }
        None => match before.rsplit_once(':') {
            Some((local, host)) => (before.get(..=local.len()).unwrap_or_default(), host),
            None => ("", before),
        },
    };
    let target = TcpTarget::of_input(host, port)?;
    match (local.is_empty(), local.strip_suffix(':')) {
        (true, _) => Ok((None, target)),
        (false, Some(local)) => Ok((Some(local), target)),
        (false, None) => Err(TcpTargetError::Host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_address_may_be_left_out_in_parts() {
        for (text, listen, target) in [
            ("db.shop:5432", "127.0.0.1:5432", "db.shop:5432"),
            ("15432:db.shop:5432", "127.0.0.1:15432", "db.shop:5432"),
            ("0:db:5432", "127.0.0.1:0", "db:5432"),
            (":0:db:5432", "127.0.0.1:0", "db:5432"),
            ("127.0.0.2:1:db:5432", "127.0.0.2:1", "db:5432"),
            ("[::1]:1:db:5432", "[::1]:1", "db:5432"),
            ("0.0.0.0:1:10.0.0.1:22", "0.0.0.0:1", "10.0.0.1:22"),
            ("[fd00::1]:22", "127.0.0.1:22", "[fd00::1]:22"),
            ("1:[fd00::1]:22", "127.0.0.1:1", "[fd00::1]:22"),
            ("[::1]:1:[fd00::1]:22", "[::1]:1", "[fd00::1]:22"),
            ("DB.shop.:80", "127.0.0.1:80", "db.shop:80"),
        ] {
            let spec = ForwardSpec::parse(text).unwrap();
            let written = (spec.listen.to_string(), spec.target.to_string());
            assert_eq!(written, (listen.to_owned(), target.to_owned()), "{text}");
        }
    }

    #[test]
    fn unclear_forwards_are_refused() {
        for text in [
            "",
            "db",
            "db:",
            ":5432",
            "5432",
            "db:0",
            "db:65536",
            "db:x",
            "x:db:1",
            "a:1:db:5432",
            "1:2:db:5432",
            "::1:22",
            "[::1:22",
            "1[::1]:22",
            "db:1:",
            "70000:db:1",
            "127.0.0.1:db:1",
            "user@db:1",
            "db:+1",
        ] {
            let failure = ForwardSpec::parse(text).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{text}");
        }
    }
}
