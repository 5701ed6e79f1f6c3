//! TLS of the hub's front, for kubectl, agents' WebSockets and browsers.

use std::sync::Arc;

use rustls::{ServerConfig, server::NoServerSessionStorage};

use crate::{
    error::CertsError,
    leaf::Leaf,
    tls::{internal, provider},
};

/// TLS 1.2 and 1.3 of the hub's front: h2 and http/1.1 by ALPN.
///
/// No tickets and no resumption: their state would be kept for clients that never return.
///
/// # Errors
/// `FL-5101` if the provider lacks these versions.
pub fn front_server(leaf: &Leaf) -> Result<Arc<ServerConfig>, CertsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(internal)?
        .with_no_client_auth()
        .with_cert_resolver(leaf.resolver());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
