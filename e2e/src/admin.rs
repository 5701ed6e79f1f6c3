//! Admin ports of hubs and agents.

use std::io;
use std::net::SocketAddr;

use fairlead_testkit::raw::RawClient;

use crate::netns::NetNs;

/// A page of metrics in Prometheus' text format.
#[derive(Debug, Clone)]
pub struct Metrics(pub String);

impl Metrics {
    /// Sum of all series of this name with all of `labels`; 0 where there is none yet.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_name = |line: &&str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        let lines = self.0.lines().filter(of_name);
        lines
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }
}

/// Client of a plain HTTP port, which may be inside a network namespace.
pub(crate) fn admin_client(net: Option<&NetNs>, address: SocketAddr) -> RawClient {
    let client = RawClient::plain(address);
    match net {
        Some(net) => in_net(client, net),
        None => client,
    }
}

/// Opens the connections of `client` from inside a network namespace.
#[must_use]
pub fn in_net(client: RawClient, net: &NetNs) -> RawClient {
    let net = net.clone();
    client.connecting_by(move |address| net.connect(address).map_err(io::Error::other))
}

pub(crate) async fn metrics(net: Option<&NetNs>, address: SocketAddr) -> anyhow::Result<Metrics> {
    Ok(Metrics(admin_client(net, address).get("/metrics").await?))
}

/// Body of a page of an admin port.
///
/// # Errors
/// The port does not answer in time, or not with 200.
pub async fn get_plain(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    admin_client(None, address).get(path).await
}
