//! From a name to a TCP connection: resolved on each attempt, all addresses tried (RFC 8305). IPv6
//! and IPv4 alternate; the next attempt starts after 250 ms or after a failure; the first to
//! connect wins.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use fairlead_api::Code;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    net::{TcpStream, lookup_host},
    time::sleep,
};

use super::{
    error::{DialError, DialStage, step},
    trace::DialTrace,
};
use crate::link_io::set_link_options;

/// Head start of an address before the next one.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects to `host`, a name or an address, with TCP_NODELAY and the socket options of a link.
pub(super) async fn connect(
    host: &str,
    port: u16,
    deadline: Duration,
    trace: &DialTrace,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let resolved = async {
        let found = lookup_host((host, port)).await.map_err(|error| {
            DialError::new(
                DialStage::Dns,
                Code::DialDns,
                format_args!("{host}: {error}"),
            )
        })?;
        Ok(in_turn(found.collect()))
    };
    let addresses = step(DialStage::Dns, deadline, resolved).await?;
    if addresses.is_empty() {
        let cause = format!("{host} has no address");
        return Err(DialError::new(DialStage::Dns, Code::DialDns, cause));
    }
    let all = addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    trace.pass(DialStage::Dns, format_args!("{host} is {all}"));
    let connected = step(DialStage::Tcp, deadline, race(addresses, one)).await;
    let (tcp, address) = connected.map_err(|error| error.at(all))?;
    trace.pass(DialStage::Tcp, address);
    Ok((tcp, address))
}

/// IPv6 and IPv4 alternate, starting with the family of the resolver's first address.
fn in_turn(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut a, mut b): (VecDeque<_>, VecDeque<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_v6);
    let mut turns = VecDeque::with_capacity(a.len() + b.len());
    while let Some(address) = a.pop_front() {
        turns.push_back(address);
        turns.extend(b.pop_front());
    }
    turns.append(&mut b);
    turns
}

async fn race<T, F>(
    mut waiting: VecDeque<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<(T, SocketAddr), DialError>
where
    F: Future<Output = (SocketAddr, io::Result<T>)>,
{
    let mut tries = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        if let Some(address) = waiting.pop_front() {
            tries.push(connect(address));
        } else if tries.is_empty() {
            let cause = failures.join("; ");
            return Err(DialError::new(DialStage::Tcp, Code::DialTcp, cause));
        }
        tokio::select! {
            Some((address, outcome)) = tries.next() => match outcome {
                Ok(tcp) => return Ok((tcp, address)),
                Err(error) => failures.push(format!("{address}: {error}")),
            },
            () = sleep(ATTEMPT_DELAY), if !waiting.is_empty() => {}
        }
    }
}

async fn one(address: SocketAddr) -> (SocketAddr, io::Result<TcpStream>) {
    let outcome = async {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        set_link_options(&tcp);
        Ok(tcp)
    };
    (address, outcome.await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_alternate_and_none_is_lost() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let all = ["[::1]:1", "[::2]:1", "[::3]:1", "127.0.0.1:1"].map(parse);
        let turns = in_turn(all.to_vec());
        let wanted = ["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"].map(parse);
        assert_eq!(turns, wanted);
        assert_eq!(in_turn(vec![wanted[1]]), [wanted[1]]);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_ipv6_delays_ipv4_by_its_head_start() {
        let [v6, v4] = ["[2001:db8::1]:443", "192.0.2.1:443"].map(|it| it.parse().unwrap());
        let since = tokio::time::Instant::now();
        let connect = |address: SocketAddr| async move {
            if address.is_ipv6() {
                // No answer, as from a firewall that drops packets.
                std::future::pending::<()>().await;
            }
            (address, Ok(()))
        };
        let ((), address) = race(in_turn(vec![v6, v4]), connect).await.unwrap();
        assert_eq!(address, v4);
        assert_eq!(since.elapsed(), ATTEMPT_DELAY);
    }

    #[tokio::test]
    async fn dead_address_delays_a_live_one_by_its_failure_only() {
        let live = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        // Bound, so that nothing else listens there, but not listening.
        let dead = tokio::net::TcpSocket::new_v4().unwrap();
        dead.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let gone = dead.local_addr().unwrap();
        let here = live.local_addr().unwrap();
        let (tcp, address) = race(VecDeque::from([gone, here]), one).await.unwrap();
        assert_eq!(address, here);
        assert!(tcp.nodelay().unwrap());
        #[cfg(target_os = "linux")]
        {
            let tcp = socket2::SockRef::from(&tcp);
            let timeout = tcp.tcp_user_timeout().unwrap();
            assert_eq!(timeout, Some(crate::limits::SILENCE_TIMEOUT));
            assert_eq!(
                tcp.tcp_notsent_lowat().unwrap(),
                crate::link_io::MAX_UNSENT_BYTES
            );
        }
        let error = race(VecDeque::from([gone]), one).await.unwrap_err();
        assert_eq!((error.stage, error.code), (DialStage::Tcp, Code::DialTcp));
    }
}
