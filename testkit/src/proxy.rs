//! A fake HTTP proxy for CONNECT.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A proxy on loopback. It ends after its last connection.
pub struct FakeProxy {
    address: SocketAddr,
    task: JoinHandle<String>,
}

impl FakeProxy {
    /// Sends these bytes in answer to a request on each of so many connections, and closes them.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn answering(answer: &'static [u8], connections: usize) -> Self {
        Self::start(move |listener| async move {
            let mut head = String::new();
            for _ in 0..connections {
                let (mut client, _) = listener.accept().await.unwrap();
                head = read_head(&mut client).await;
                client.write_all(answer).await.unwrap();
            }
            head
        })
        .await
    }

    /// Connects one client to this server, independent of the requested name.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn to(server: SocketAddr) -> Self {
        Self::start(move |listener| async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let head = read_head(&mut client).await;
            let mut server = TcpStream::connect(server).await.unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let _ = copy_bidirectional(&mut client, &mut server).await;
            head
        })
        .await
    }

    async fn start<F>(serve: impl FnOnce(TcpListener) -> F) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            address: listener.local_addr().unwrap(),
            task: tokio::spawn(serve(listener)),
        }
    }

    /// Address of its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Head of the last request, once the proxy has ended.
    ///
    /// # Panics
    /// A client has sent no request.
    pub async fn last_request(self) -> String {
        self.task.await.unwrap()
    }
}

async fn read_head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
