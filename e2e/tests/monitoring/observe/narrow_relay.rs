//! A relay that can refuse all connections but one.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use tokio_util::task::AbortOnDropHandle;

pub(super) struct NarrowRelay {
    address: SocketAddr,
    is_narrow: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl NarrowRelay {
    pub(super) async fn to(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let is_narrow = Arc::<AtomicBool>::default();
        let connections = Arc::<Mutex<Vec<AbortHandle>>>::default();
        let (narrow, opened) = (Arc::clone(&is_narrow), Arc::clone(&connections));
        let accepting = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if narrow.load(Ordering::Relaxed) {
                    continue;
                }
                let copying = tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        // Either side may break the connection.
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
                opened.push(copying.abort_handle());
            }
        });
        Ok(NarrowRelay {
            address,
            is_narrow,
            connections,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections but one, and accepts no further one.
    pub(super) fn narrow(&self) {
        self.is_narrow.store(true, Ordering::Relaxed);
        let connections = self.connections.lock();
        let connections = connections.unwrap_or_else(PoisonError::into_inner);
        let open = connections.iter().filter(|it| !it.is_finished());
        for connection in open.skip(1) {
            connection.abort();
        }
    }

    /// Accepts connections again.
    pub(super) fn widen(&self) {
        self.is_narrow.store(false, Ordering::Relaxed);
    }
}
