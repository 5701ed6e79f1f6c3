//! A fixed number of requests over open connections, for figures per request that no clock decides.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    target::{Connection, Target},
    window::LoadWindow,
};

/// Open connections to one target. Each sends its next request when the last answer is complete.
pub(crate) struct FixedLoad {
    target: Arc<Target>,
    window: Arc<LoadWindow>,
    connections: Vec<Connection>,
}

impl FixedLoad {
    /// Connects all clients.
    ///
    /// # Errors
    /// A connection cannot be made.
    pub(crate) async fn connect(target: Target, clients: usize) -> anyhow::Result<Self> {
        let mut connections = Vec::with_capacity(clients);
        for _ in 0..clients {
            connections.push(target.connect().await?);
        }
        Ok(Self {
            target: Arc::new(target),
            window: Arc::new(LoadWindow::new(false)),
            connections,
        })
    }

    /// Sends this many requests over each connection, all connections at once.
    ///
    /// # Errors
    /// A request fails.
    pub(crate) async fn run(&mut self, requests: usize) -> anyhow::Result<()> {
        let mut workers = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let (target, window) = (self.target.clone(), self.window.clone());
            workers.spawn(async move {
                for _ in 0..requests {
                    target.exchange(&mut connection, &window).await?;
                }
                anyhow::Ok(connection)
            });
        }
        while let Some(ended) = workers.join_next().await {
            self.connections.push(ended??);
        }
        Ok(())
    }
}
