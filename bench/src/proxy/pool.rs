//! Keep-alive connections to the upstream. The last one returned is the first one taken, because it is the
//! warmest.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    client::conn::http1::{self, SendRequest},
    http::uri::Authority,
};
use rustls::ClientConfig;
use tokio::time;

use crate::dial::Dial;

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Idle connections kept; more than any scenario has clients.
const MAX_IDLE: usize = 1024;

pub(crate) struct BackendPool {
    dial: Dial,
    idle: Mutex<Vec<SendRequest<Incoming>>>,
}

impl BackendPool {
    /// Without `tls` the pool speaks plain HTTP.
    pub(crate) fn new(
        upstream: &Authority,
        tls: Option<Arc<ClientConfig>>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            dial: Dial::new(upstream, upstream.host(), tls, None)?,
            idle: Mutex::default(),
        })
    }

    /// Takes a connection that is ready for a request.
    pub(crate) async fn take(&self) -> anyhow::Result<SendRequest<Incoming>> {
        loop {
            let Some(mut connection) = self.idle().pop() else {
                return self.connect().await;
            };
            // An error means that the upstream has closed the connection. One that was returned early is
            // ready after its last poll.
            if connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
    }

    fn give_back(&self, connection: SendRequest<Incoming>) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SendRequest<Incoming>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Incoming>> {
        let dial = async { anyhow::Ok(http1::handshake(self.dial.open().await?).await?) };
        let (connection, driver) = time::timeout(CONNECT_DEADLINE, dial)
            .await
            .context("no connection in time")??;
        // The task ends when the upstream closes the connection or the pool drops it.
        drop(tokio::spawn(async move {
            if let Err(error) = driver.await {
                eprintln!("connection to the upstream: {error}");
            }
        }));
        Ok(connection)
    }
}

/// Body of an answer that returns its connection once it is read to the end. Dropping a partly read body
/// closes the connection.
pub(crate) struct Returning {
    body: Incoming,
    home: Option<(SendRequest<Incoming>, Arc<BackendPool>)>,
}

impl Returning {
    pub(crate) fn new(
        body: Incoming,
        connection: SendRequest<Incoming>,
        pool: Arc<BackendPool>,
    ) -> Self {
        let mut returning = Self {
            body,
            home: Some((connection, pool)),
        };
        returning.settle();
        returning
    }

    fn settle(&mut self) {
        if self.body.is_end_stream() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some((connection, pool)) = self.home.take() {
            pool.give_back(connection);
        }
    }
}

impl Body for Returning {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            // The hyper server does not poll again once the content length is reached, so the end is detected
            // here.
            Some(Ok(_)) => self.settle(),
            Some(Err(_)) => self.home = None,
            None => self.give_back(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
