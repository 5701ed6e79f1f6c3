//! The hub's address for the other hubs on its database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use fairlead_api::{Code, Failure, HubUrl};
use tokio::net::lookup_host;

/// The listen address. A hub on all interfaces takes the interface on which it reaches the database.
///
/// # Errors
/// `FL-4101` if that is no address of a hub.
pub(super) async fn hub_address(
    listen: SocketAddr,
    database: Option<(String, u16)>,
) -> Result<HubUrl, Failure> {
    let ip = match (listen.ip().is_unspecified(), database) {
        (false, _) => listen.ip(),
        (true, None) => Ipv4Addr::LOCALHOST.into(),
        (true, Some(database)) => route_to(database).await.unwrap_or(loopback(listen.ip())),
    };
    let address = SocketAddr::new(ip.to_canonical(), listen.port());
    let url = format!("https://{address}");
    url.parse()
        .map_err(|error| Failure::because(Code::BadConfig, error))
}

const fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}

/// This machine's own address on the route to a server. Nothing is sent.
async fn route_to((host, port): (String, u16)) -> Option<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let server = lookup_host((host, port)).await.ok()?.next()?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn address(listen: &str, database: Option<&str>) -> String {
        let database = database.map(|host| (host.to_owned(), 5432));
        let found = hub_address(listen.parse().unwrap(), database).await;
        found.unwrap().to_string()
    }

    #[tokio::test]
    async fn address_of_a_hub_is_its_interface_to_the_database() {
        let listen = address("192.0.2.7:8443", Some("127.0.0.1")).await;
        assert_eq!(listen, "https://192.0.2.7:8443");
        let six = address("[2001:db8::7]:8443", None).await;
        assert_eq!(six, "https://[2001:db8::7]:8443");
        for all in ["0.0.0.0:8443", "[::]:8443"] {
            let local = address(all, Some("127.0.0.1")).await;
            assert_eq!(local, "https://127.0.0.1:8443", "{all}");
        }
        // A socket in the file system is on this machine.
        let socket = address("0.0.0.0:8443", Some("/run/postgresql")).await;
        assert_eq!(socket, "https://127.0.0.1:8443");
    }
}
