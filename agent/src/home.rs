//! Places that follow from the configuration: store of the identity, the agent's own namespace, and its proxy.

use std::sync::Arc;

use fairlead_api::Failure;
use fairlead_apiserver::{ApiServerConfig, Upstream};

use crate::{
    config::{Config, DEFAULT_NAMESPACE, IdentityLocation},
    identity::{dir::DirStore, secret::SecretStore, store::IdentityStore},
    proxy_source::ProxySource,
    reserved::ReservedNamespace,
};

/// Store of the agent's identity.
pub(crate) fn store(config: &Config, upstream: &Arc<Upstream>) -> IdentityStore {
    match &config.state {
        IdentityLocation::Dir(dir) => IdentityStore::Dir(DirStore::new(dir.clone())),
        IdentityLocation::Secret { .. } => {
            IdentityStore::Secret(SecretStore::new(upstream.clone(), own_namespace(config)))
        }
    }
}

/// Namespace of the agent's own objects.
pub(crate) fn own_namespace(config: &Config) -> String {
    let configured = match &config.state {
        IdentityLocation::Secret { namespace } => namespace.clone(),
        IdentityLocation::Dir(_) => None,
    };
    configured
        .or_else(|| pods_namespace(&config.target))
        .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// Namespace with the agent's identity or its pod; `None` for an agent outside of the cluster with a folder.
pub(crate) fn reserved_namespace(config: &Config) -> Option<ReservedNamespace> {
    let namespace = match config.state {
        IdentityLocation::Secret { .. } => Some(own_namespace(config)),
        IdentityLocation::Dir(_) => pods_namespace(&config.target),
    };
    namespace.map(ReservedNamespace::new)
}

fn pods_namespace(target: &ApiServerConfig) -> Option<String> {
    let ApiServerConfig::InCluster { dir, .. } = target else {
        return None;
    };
    let namespace = std::fs::read_to_string(dir.join("namespace")).ok()?;
    Some(namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

/// Proxy to the hubs.
///
/// # Errors
///
/// `FL-4101` for a mistake in HTTPS_PROXY.
pub(crate) fn proxy_source(config: &Config) -> Result<ProxySource, Failure> {
    let (file, url) = (config.proxy_file.clone(), config.https_proxy.as_deref());
    ProxySource::new(file, url, config.no_proxy.clone())
}
