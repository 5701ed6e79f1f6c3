//! Listening sockets and accept loops.
//!
//! A loop pauses after an error, so that a full file table does not spin a core. It never waits for a peer.

use std::{future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use fairlead_api::{Code, Failure};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tracing::warn;

use crate::process::Process;

/// tokio's default is 128: a few thousand agents that reconnect at once would wait for retransmits.
const LISTEN_BACKLOG: u32 = 4096;
/// Pause after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Listens on `address`; port 0 chooses a free one.
///
/// # Errors
/// `FL-4104` with the address and the system's error.
pub fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listen = || -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(LISTEN_BACKLOG)
    };
    listen()
        .map_err(|error| Failure::because(Code::AddressInUse, format_args!("{address}: {error}")))
}

/// Accepts connections until `over` completes.
///
/// Each connection is a task of the process, with TCP_NODELAY set, on the next core in turn.
pub async fn accept_loop<H, F>(
    listener: TcpListener,
    process: &Process,
    over: impl Future<Output = ()>,
    handle: H,
) where
    H: Fn(TcpStream, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let mut over = pin!(over);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut over => return,
        };
        match accepted {
            Ok((socket, peer)) => {
                // Fails only on a dead socket; its first read reports that.
                let _ = socket.set_nodelay(true);
                match socket.into_std() {
                    Ok(socket) => process.spawn_spread(serve(socket, peer, handle.clone())),
                    Err(error) => warn!(%error, "accept failed"),
                }
            }
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Registers the socket with the poll of the runtime that it runs on.
async fn serve<H, F>(socket: std::net::TcpStream, peer: SocketAddr, handle: H)
where
    H: Fn(TcpStream, SocketAddr) -> F,
    F: Future<Output = ()>,
{
    match TcpStream::from_std(socket) {
        Ok(socket) => handle(socket, peer).await,
        Err(error) => warn!(%error, "accept failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn address_in_use_has_its_code() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let failure = bind(first.local_addr().unwrap()).unwrap_err();
        assert_eq!(failure.code, Code::AddressInUse);
        assert!(failure.cause.contains("127.0.0.1:"), "{failure}");
    }

    #[tokio::test]
    async fn accept_loop_ends_with_the_drain() {
        let process = Process::new();
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, mut peers) = tokio::sync::mpsc::channel(1);
        let looping = accept_loop(listener, &process, process.draining(), move |_, peer| {
            let seen = seen.clone();
            async move {
                seen.send(peer).await.unwrap();
            }
        });
        let client = async {
            let socket = TcpStream::connect(address).await.unwrap();
            assert_eq!(peers.recv().await, Some(socket.local_addr().unwrap()));
            process.start_drain();
        };
        tokio::join!(looping, client);
    }
}
