//! Decisions about targets of plain TCP: rules of the site operator, narrowed by those of the hub.

use std::net::SocketAddr;

use fairlead_api::{
    Code, Failure,
    tcp::{ConnectRule, TcpHost, TcpTarget, is_reserved},
};

/// Parses the values of `--allow-connect`.
///
/// # Errors
///
/// `FL-4101` with the first invalid rule.
pub(crate) fn rules(texts: &[String]) -> Result<Vec<ConnectRule>, Failure> {
    let parsed = texts.iter().map(|text| {
        text.parse().map_err(|error| {
            Failure::because(
                Code::BadConfig,
                format_args!("--allow-connect {text:?}: {error}"),
            )
        })
    });
    parsed.collect()
}

/// Rules of the site operator, and those of the hub's configuration, which only narrow them.
pub(crate) struct ConnectRules<'a> {
    own: &'a [ConnectRule],
    /// `None`: the hub narrows nothing.
    desired: Option<Vec<ConnectRule>>,
}

impl<'a> ConnectRules<'a> {
    /// A rule of the hub that cannot be read allows nothing.
    pub(crate) fn new(own: &'a [ConnectRule], desired: Option<&[String]>) -> Self {
        let parsed = |desired: &[String]| desired.iter().filter_map(|it| it.parse().ok()).collect();
        ConnectRules {
            own,
            desired: desired.map(parsed),
        }
    }

    /// True if a rule of the site operator fulfils `condition`, and one of the hub's does, if it has any.
    fn allow(&self, condition: impl Fn(&ConnectRule) -> bool) -> bool {
        let desired = self.desired.as_ref();
        self.own.iter().any(&condition) && desired.is_none_or(|it| it.iter().any(&condition))
    }

    /// Refuses a target that no rule can allow, before its name is resolved.
    pub(crate) fn check_target(&self, target: &TcpTarget) -> Result<(), Failure> {
        let is_exact = |rule: &ConnectRule| match target.host() {
            TcpHost::Address(address) => rule.names_exactly(target.host(), *address, target.port()),
            TcpHost::Name(_) => false,
        };
        if self.allow(|rule| rule.may_allow(target) || is_exact(rule)) {
            return Ok(());
        }
        match target.host() {
            TcpHost::Address(address) if is_reserved(*address) => {
                Err(Failure::because(Code::TargetReserved, target))
            }
            _ => Err(refused(target, None)),
        }
    }

    /// Checks an address of the target.
    pub(crate) fn check_address(
        &self,
        target: &TcpTarget,
        address: SocketAddr,
    ) -> Result<(), Failure> {
        let (host, port, ip) = (target.host(), target.port(), address.ip().to_canonical());
        let is_exact = self.allow(|rule| rule.names_exactly(host, ip, port));
        if is_exact {
            return Ok(());
        }
        if is_reserved(ip) {
            let detail = format_args!("{target} is {ip}");
            return Err(Failure::because(Code::TargetReserved, detail));
        }
        let is_allowed = self.allow(|rule| match host {
            TcpHost::Name(name) => rule.allows_name(name, port) || rule.allows_address(ip, port),
            TcpHost::Address(_) => rule.allows_address(ip, port),
        });
        match is_allowed {
            true => Ok(()),
            false => Err(refused(target, Some(address))),
        }
    }

    /// True if the address may be one of this machine.
    pub(crate) fn allow_own_machine(&self, target: &TcpTarget, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.allow(|rule| rule.names_exactly(target.host(), ip, target.port()))
    }
}

fn refused(target: &TcpTarget, address: Option<SocketAddr>) -> Failure {
    match address {
        Some(address) => Failure::because(
            Code::TargetRefused,
            format_args!("\"{target}\" is {}, which is not in its list", address.ip()),
        ),
        None => Failure::because(
            Code::TargetRefused,
            format_args!("\"{target}\" is not in its list"),
        ),
    }
}

#[cfg(test)]
pub(crate) mod tests;
