//! Routes to ready pods: a listener in one network namespace, connections from another one.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use super::Route;
use crate::netns::NetNs;

/// Namespaces and labels of ready pods, by UID.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadyPods(Arc<Mutex<BTreeMap<String, (Value, NetNs)>>>);

impl ReadyPods {
    pub(super) fn put(&self, uid: &str, labels: Value, net: NetNs) {
        self.locked(|pods| pods.insert(uid.to_owned(), (labels, net)));
    }

    pub(super) fn remove(&self, uid: &str) {
        self.locked(|pods| pods.remove(uid));
    }

    fn find(&self, labels: &BTreeMap<String, String>) -> Option<NetNs> {
        self.locked(|pods| {
            let matches = |of: &Value| labels.iter().all(|(name, value)| of[name] == **value);
            let found = pods.values().find(|(of, _)| matches(of));
            found.map(|(_, net)| net.clone())
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<String, (Value, NetNs)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves a route until this process ends. Without a ready pod, connections are closed.
pub(super) fn serve(
    listener: std::net::TcpListener,
    ready: ReadyPods,
    route: Route,
) -> anyhow::Result<()> {
    accept(listener, move || {
        let (found, port) = (ready.find(&route.labels), route.to);
        move || {
            let net = found?;
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            net.connect(to).ok()
        }
    })
}

/// Serves connections to an address of this machine's own network.
pub(super) fn serve_host(listener: std::net::TcpListener, to: SocketAddr) -> anyhow::Result<()> {
    accept(listener, move || {
        move || std::net::TcpStream::connect(to).ok()
    })
}

fn accept<C>(
    listener: std::net::TcpListener,
    connector: impl Fn() -> C + Send + Sync + 'static,
) -> anyhow::Result<()>
where
    C: FnOnce() -> Option<std::net::TcpStream> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            let connect = connector();
            tokio::spawn(async move {
                let connected = tokio::task::spawn_blocking(connect).await;
                if let Ok(Some(to)) = connected {
                    // A broken connection is the business of both ends.
                    drop(splice(from, to).await);
                }
            });
        }
    });
    Ok(())
}

async fn splice(mut from: TcpStream, to: std::net::TcpStream) -> std::io::Result<()> {
    to.set_nonblocking(true)?;
    let mut to = TcpStream::from_std(to)?;
    tokio::io::copy_bidirectional(&mut from, &mut to).await?;
    Ok(())
}
