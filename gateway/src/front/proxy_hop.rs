//! The hop from a proxy or load balancer to the gateway: the address of the client behind it.
//!
//! All later steps use this address only: limits, audit, logs, token reviews and agents' sessions.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fairlead_api::Code;
use fairlead_runtime::{proxies::Proxies, proxy_header::ProxyHeaderError};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{net::TcpStream, time::Instant};
use tracing::{debug, warn};

use crate::http::lookup;

/// Headers of proxies that the hub reads. Another sender's are removed.
static PROXY_HEADERS: [HeaderName; 3] = [
    FORWARDED_FOR,
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-host"),
];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Interval between two warnings about connections without a valid PROXY header.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct ProxyHop {
    proxies: Proxies,
    warned: Mutex<Option<Instant>>,
}

impl ProxyHop {
    pub(crate) fn new(proxies: Proxies) -> Self {
        ProxyHop {
            proxies,
            warned: Mutex::default(),
        }
    }

    /// True if connections may begin with a PROXY header.
    pub(crate) const fn reads_header(&self) -> bool {
        self.proxies.proxy_protocol
    }

    /// Address of the client of a new connection; `None` if its PROXY header is refused.
    pub(crate) async fn client_of(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
    ) -> Option<SocketAddr> {
        match self.proxies.client_of(socket, peer).await {
            Ok(client) => Some(client),
            Err(error) => {
                self.report(peer, error);
                None
            }
        }
    }

    /// True if connections of this address carry requests of many clients.
    pub(crate) fn is_shared(&self, peer: SocketAddr) -> bool {
        self.proxies.trusts(peer.ip())
    }

    /// Address of the client of a request. Removes the headers of proxies unless `peer` is trusted.
    pub(crate) fn client_of_request(
        &self,
        headers: &mut HeaderMap,
        peer: SocketAddr,
    ) -> SocketAddr {
        if !self.is_shared(peer) {
            let is_of_proxy = |name: &HeaderName| PROXY_HEADERS.contains(name);
            lookup::remove(headers, is_of_proxy);
            return peer;
        }
        let values = headers.get_all(FORWARDED_FOR).into_iter();
        let client = self
            .proxies
            .forwarded_for(values.map(HeaderValue::as_bytes));
        client.unwrap_or(peer)
    }

    fn report(&self, peer: SocketAddr, error: ProxyHeaderError) {
        let cause = &error as &dyn std::error::Error;
        let now = Instant::now();
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_quiet = warned.is_some_and(|at| now - at < WARN_INTERVAL);
        if error == ProxyHeaderError::Closed || is_quiet {
            debug!(peer.ip = %peer.ip(), cause, "PROXY header refused");
        } else {
            *warned = Some(now);
            warn!(peer.ip = %peer.ip(), code = %Code::ProxyHeader, cause, "PROXY header refused");
        }
    }
}
