//! hyper's client on streams of a session.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tower_service::Service;

use crate::{error::OpenError, mux::Stream, session::Session};

/// Connector of hyper-util's `Client`: each connection is a new stream of the session.
///
/// The host in a URI is for the service only: all URIs lead to the agent of this session. Use `http://`, because the
/// session itself is encrypted; an `https://` URI would need a connector with TLS around this one. The client's pool
/// keeps idle streams, which count towards [`Limits::max_streams`](crate::limits::Limits::max_streams).
#[derive(Clone)]
pub struct SessionConnector {
    session: Session,
}

impl SessionConnector {
    /// Connector of one session. When that ends, each connection fails with [`OpenError::Closed`].
    #[must_use]
    pub fn new(session: Session) -> Self {
        SessionConnector { session }
    }
}

impl Service<Uri> for SessionConnector {
    type Response = TokioIo<Stream>;
    type Error = OpenError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, OpenError>> + Send>>;

    /// Always ready: a session at its limit of streams fails the call with [`OpenError::Full`].
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), OpenError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let session = self.session.clone();
        Box::pin(async move { session.open().await.map(TokioIo::new) })
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
