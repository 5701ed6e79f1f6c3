//! A TCP relay on loopback whose connections can break.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use fairlead_api::HubUrl;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    task::{AbortHandle, JoinHandle},
};

/// Bytes forwarded at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Faults of a relay, and the number of its connections.
#[derive(Default)]
pub struct RelayControl {
    taken: AtomicUsize,
    unreachable: AtomicBool,
    discards_input: AtomicBool,
    discards_output: AtomicBool,
    connections: Mutex<Vec<AbortHandle>>,
}

impl RelayControl {
    /// Number of accepted connections.
    #[must_use]
    pub fn connections_taken(&self) -> usize {
        self.taken.load(SeqCst)
    }

    /// `false` while each new connection is closed at once.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        !self.unreachable.load(SeqCst)
    }

    /// Closes all connections, and new ones until [`RelayControl::reconnect`].
    ///
    /// # Panics
    /// Another test has panicked.
    pub fn disconnect(&self) {
        // Under the lock: a connection that is accepted meanwhile is closed here, or not forwarded.
        let mut connections = self.connections.lock().unwrap();
        self.unreachable.store(true, SeqCst);
        close(&mut connections);
    }

    /// Forwards new connections again.
    pub fn reconnect(&self) {
        self.unreachable.store(false, SeqCst);
    }

    /// Closes all connections. New ones are forwarded.
    ///
    /// # Panics
    /// Another test has panicked.
    pub fn cut(&self) {
        close(&mut self.connections.lock().unwrap());
    }

    /// Discards the bytes of clients and keeps their connections open.
    pub fn discard_input(&self) {
        self.discards_input.store(true, SeqCst);
    }

    /// Discards nothing any more, and closes the connections, which may lack bytes.
    ///
    /// # Panics
    /// Another test has panicked.
    pub fn discard_nothing(&self) {
        self.discards_input.store(false, SeqCst);
        self.discards_output.store(false, SeqCst);
        self.cut();
    }

    /// Discards the bytes of the server and keeps its connections open.
    pub fn discard_output(&self) {
        self.discards_output.store(true, SeqCst);
    }
}

/// A port that leads to a server. It closes when this is dropped.
pub struct Relay {
    /// Its faults.
    pub control: Arc<RelayControl>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Relay {
    /// Opens a free port of loopback that leads to `server`.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn to(server: SocketAddr) -> Self {
        Relay::controlled_by(Arc::default(), server).await
    }

    /// As [`Relay::to`], with faults that others control.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn controlled_by(control: Arc<RelayControl>, server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Relay {
            address: listener.local_addr().unwrap(),
            task: tokio::spawn(forward(listener, server, control.clone())),
            control,
        }
    }

    /// Address of its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of a hub behind it.
    ///
    /// # Panics
    /// Never: the address is valid.
    #[must_use]
    pub fn url(&self) -> HubUrl {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// Number of accepted connections.
    #[must_use]
    pub fn connections_taken(&self) -> usize {
        self.control.connections_taken()
    }

    /// Closes its port and all connections.
    pub fn stop(&self) {
        self.task.abort();
        self.control.cut();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn forward(listener: TcpListener, server: SocketAddr, control: Arc<RelayControl>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        control.taken.fetch_add(1, SeqCst);
        let mut connections = control.connections.lock().unwrap();
        if control.is_reachable() {
            let connection = tokio::spawn(connection(client, server, control.clone()));
            connections.push(connection.abort_handle());
        }
    }
}

fn close(connections: &mut Vec<AbortHandle>) {
    let all = connections.drain(..);
    all.for_each(|connection| connection.abort());
}

async fn connection(mut client: TcpStream, server: SocketAddr, control: Arc<RelayControl>) {
    // A server that is gone ends its client's connection, as a balancer does.
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    // Otherwise delayed acknowledgements add 40 ms to each ack probe.
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ((mut input, mut back), (mut output, mut on)) = (client.split(), server.split());
    tokio::join!(
        copy(&mut input, &mut on, &control.discards_input),
        copy(&mut output, &mut back, &control.discards_output),
    );
}

/// Copies one direction to its end, except discarded bytes.
async fn copy(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>, discards: &AtomicBool) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(size @ 1..) = from.read(&mut chunk).await {
        if !discards.load(SeqCst) && to.write_all(&chunk[..size]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
