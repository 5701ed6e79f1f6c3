//! Plain TCP by CONNECT, only to addresses that the site operator's rules allow.
//!
//! A name is resolved here, in the cluster, and once: the address that was checked is the address that is connected. A rule
//! with a name or a suffix trusts the DNS of the cluster for that name; a rule with a network decides about the address.

use std::{io, net::SocketAddr, time::Duration};

use fairlead_api::{
    Code, Failure,
    tcp::{TcpHost, TcpTarget},
};
use http::Uri;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::connect_rules::ConnectRules;

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Deadline of each address but the last one, so that an address that drops packets leaves time for the others.
const ADDRESS_DEADLINE: Duration = Duration::from_secs(3);
/// Limit of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Connects to the authority of a CONNECT.
///
/// # Errors
///
/// `FL-1524` if it cannot be read, `FL-1503` if no rule allows it, `FL-1523` if it is reserved, `FL-1505` if it is
/// unreachable.
pub(crate) async fn open(rules: &ConnectRules<'_>, uri: &Uri) -> Result<TcpStream, Failure> {
    let requested = uri
        .authority()
        .map(http::uri::Authority::as_str)
        .unwrap_or_default();
    let target: TcpTarget = requested.parse().map_err(|error| {
        Failure::because(
            Code::TargetUnreadable,
            format_args!("{requested:?}: {error}"),
        )
    })?;
    rules.check_target(&target)?;
    match timeout(CONNECT_DEADLINE, connect(rules, &target)).await {
        Ok(connected) => connected,
        Err(_) => Err(unreachable(
            &target,
            format_args!("no answer within {} s", CONNECT_DEADLINE.as_secs()),
        )),
    }
}

/// Resolves the name, and connects to its first allowed address that answers.
async fn connect(rules: &ConnectRules<'_>, target: &TcpTarget) -> Result<TcpStream, Failure> {
    let port = target.port();
    let addresses: Vec<SocketAddr> = match target.host() {
        TcpHost::Address(address) => vec![SocketAddr::new(*address, port)],
        TcpHost::Name(name) => {
            let found = lookup_host((name.as_str(), port)).await;
            let found = found.map_err(|error| unreachable(target, error))?;
            found.take(MAX_ADDRESSES).collect()
        }
    };
    let mut failure = unreachable(target, "its name has no address");
    let last = addresses.last().copied();
    for address in addresses {
        if let Err(refusal) = rules.check_address(target, address) {
            failure = refusal;
            continue;
        }
        let deadline = match last == Some(address) {
            true => CONNECT_DEADLINE,
            false => ADDRESS_DEADLINE,
        };
        let connected = timeout(deadline, connect_to(address)).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(socket) => return checked(rules, target, socket, address),
            Err(error) => failure = unreachable(target, format_args!("{address}: {error}")),
        }
    }
    Err(failure)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Refuses a connection to this machine itself by one of its other addresses.
fn checked(
    rules: &ConnectRules<'_>,
    target: &TcpTarget,
    socket: TcpStream,
    address: SocketAddr,
) -> Result<TcpStream, Failure> {
    let own = socket
        .local_addr()
        .map_err(|error| unreachable(target, error))?;
    if own.ip() == address.ip() && !rules.allow_own_machine(target, address) {
        let detail = format_args!("{target} is the agent's own address {}", own.ip());
        return Err(Failure::because(Code::TargetReserved, detail));
    }
    Ok(socket)
}

fn unreachable(target: &TcpTarget, cause: impl std::fmt::Display) -> Failure {
    Failure::because(Code::TargetUnreachable, format_args!("{target}: {cause}"))
}

#[cfg(test)]
mod tests;
