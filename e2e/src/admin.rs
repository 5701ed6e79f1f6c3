//! Admin ports, and whatever else answers plain HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::NetNs;

/// For an answer.
const SOON: Duration = Duration::from_secs(30);

/// A page of metrics, in Prometheus' text format.
#[derive(Debug, Clone)]
pub struct Metrics(pub String);

impl Metrics {
    /// The sum of all series of this name whose labels hold `labels`; 0 where there is none yet.
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

pub(crate) async fn metrics(net: Option<&NetNs>, address: SocketAddr) -> anyhow::Result<Metrics> {
    Ok(Metrics(get_plain_in(net, address, "/metrics").await?))
}

/// The body of a plain HTTP answer, as an admin port gives it.
///
/// # Errors
/// It does not answer in time, or not with 200.
pub async fn get_plain(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    get_plain_in(None, address, path).await
}

pub(crate) async fn get_plain_in(
    net: Option<&NetNs>,
    address: SocketAddr,
    path: &str,
) -> anyhow::Result<String> {
    let exchange = async {
        let mut socket = match net {
            Some(net) => {
                let socket = net.connect(address)?;
                socket.set_nonblocking(true)?;
                TcpStream::from_std(socket)?
            }
            None => TcpStream::connect(address).await?,
        };
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = timeout(SOON, exchange).await??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{path}: {answer}");
    }
    Ok(body.to_owned())
}
