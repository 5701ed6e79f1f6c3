//! A fake kube-apiserver. Its answer depends on the path of the request.
//!
//! It serves TLS of its own CA ([`ApiServer`]), or the streams of a fake agent ([`ApiScript::answer`]).

mod deployment;
mod response;
mod routes;
mod script;
mod upgrades;

use std::{convert::Infallible, sync::Arc};

use fairlead_exchange::{Body, BodyError};
use http::Request;
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};

pub(crate) use self::response::respond;
pub use self::script::{ApiScript, BodyStep, ReceivedRequest};
use crate::server::TestServer;

/// A fake API server with TLS on loopback. It stops when this is dropped.
pub struct ApiServer {
    /// Its behaviour and its record.
    pub script: Arc<ApiScript>,
    /// The server itself.
    pub server: TestServer,
}

impl ApiServer {
    /// Starts a server on a free port.
    #[must_use]
    pub fn start() -> Self {
        let script = Arc::<ApiScript>::default();
        let served = script.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let script = served.clone();
            async move {
                let request = request.map(|body| -> Body {
                    body.map_err(|error| BodyError::from(error.to_string()))
                        .boxed_unsync()
                });
                Ok::<_, Infallible>(script.answer(request).await)
            }
        });
        Self {
            script,
            server: TestServer::https(service),
        }
    }

    /// Port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The last request for this path.
    ///
    /// # Panics
    /// There was none.
    #[must_use]
    pub fn last(&self, path: &str) -> ReceivedRequest {
        let received = self.script.received.lock().unwrap();
        let mut of_path = received.iter().rev().filter(|request| request.path == path);
        of_path.next().unwrap().clone()
    }

    /// `true` once a request for this path has arrived.
    ///
    /// # Panics
    /// Another test has panicked.
    #[must_use]
    pub fn saw(&self, path: &str) -> bool {
        let received = self.script.received.lock().unwrap();
        received.iter().any(|request| request.path == path)
    }
}
