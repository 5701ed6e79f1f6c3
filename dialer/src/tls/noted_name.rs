//! Name of the server in a client's handshake.

use std::sync::{Arc, OnceLock};

use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// Notes the name in the handshake, which this form of rustls does not report.
#[derive(Debug)]
pub(super) struct NotedName {
    pub(super) resolver: Arc<dyn ResolvesServerCert>,
    pub(super) name: OnceLock<Arc<str>>,
}

impl ResolvesServerCert for NotedName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(name) = hello.server_name() {
            self.name.get_or_init(|| Arc::from(name));
        }
        self.resolver.resolve(hello)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.resolver.only_raw_public_keys()
    }
}
