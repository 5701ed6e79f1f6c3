//! Metrics of an admin port: one plain HTTP request.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const FETCH_DEADLINE: Duration = Duration::from_secs(10);
/// Limit of the page, in bytes.
const MAX_PAGE_BYTES: u64 = 16 << 20;
/// HTTP/1.0: the answer has no chunks, and ends with the connection.
const REQUEST: &[u8] = b"GET /metrics HTTP/1.0\r\nAccept: text/plain\r\n\r\n";

/// Fetches the page of metrics.
pub(super) async fn fetch(address: SocketAddr) -> io::Result<String> {
    let fetched = timeout(FETCH_DEADLINE, async {
        let mut tcp = TcpStream::connect(address).await?;
        tcp.write_all(REQUEST).await?;
        let mut answer = Vec::new();
        tcp.take(MAX_PAGE_BYTES).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&answer).into_owned())
    });
    let answer = fetched.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let parts = answer.split_once("\r\n\r\n");
    Ok(match parts {
        Some((head, page)) if head.contains(" 200 ") => page.to_owned(),
        _ => answer,
    })
}
