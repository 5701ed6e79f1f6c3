//! Destination of a request: the hub itself or a cluster.
//!
//! A cluster has two addresses. By name it is `<id>.<cluster domain>` as SNI or Host, and the path is the API server's.
//! By path it is `/k8s/clusters/<id>/...` on any other host. A TCP connection has a path only, on any other host, too:
//! `/v1/clusters/<id>/tcp/<target>`.
//!
//! SNI and Host that name different clusters are rejected. So is a cluster's Host inside a connection to the hub's
//! name: a proxy that checked only the name would let the other one through.

mod recent_ids;

use std::net::IpAddr;

use fairlead_api::{ClusterId, tcp::split_tcp_path};
use http::{Uri, uri::PathAndQuery};

use crate::http::error::RequestError;

const PATH_PREFIX: &str = "/k8s/clusters/";

/// Destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    Hub,
    /// A cluster, with path and query of the API server.
    Cluster(ClusterId, PathAndQuery, AddressForm),
    /// A TCP connection into a cluster; the target is in the path.
    Tcp(ClusterId),
}

/// Form of a cluster's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressForm {
    Name,
    Path,
}

impl AddressForm {
    /// The path by which a client finds `path` of the cluster's API server.
    pub(crate) fn path(self, cluster: &ClusterId, path: &str) -> String {
        match self {
            AddressForm::Name => path.to_owned(),
            AddressForm::Path => format!("{PATH_PREFIX}{cluster}{path}"),
        }
    }
}

/// The names of the hub and the domain of its clusters.
#[derive(Debug, Clone)]
pub(crate) struct HubNames {
    /// The cluster domain with a leading dot.
    suffix: String,
    hub: String,
}

/// Owner of a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameOwner {
    Cluster(ClusterId),
    /// A name below the cluster domain that no cluster can have.
    Nothing,
    /// The hub's own name, or an address; it names no cluster.
    Hub,
    Stranger,
}

impl HubNames {
    pub(crate) fn new(cluster_domain: &str, hub_host: &str) -> Self {
        let domain = cluster_domain.trim_matches('.').to_ascii_lowercase();
        HubNames {
            suffix: format!(".{domain}"),
            hub: hub_host.trim_end_matches('.').to_ascii_lowercase(),
        }
    }

    /// True for a name of the hub or of its clusters, which no service can have.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.of(name) != NameOwner::Stranger
    }

    /// Cluster with this name.
    pub(crate) fn cluster(&self, name: &str) -> Option<ClusterId> {
        match self.of(name) {
            NameOwner::Cluster(id) => Some(id),
            _ => None,
        }
    }

    /// Finds the destination; `host` is the authority of the request, `sni` the name in the TLS handshake.
    ///
    /// # Errors
    /// `FL-1302` where the two disagree, `FL-1304` for an invalid host, `FL-1301` for a name that no cluster can have.
    pub(crate) fn locate(
        &self,
        sni: Option<&str>,
        host: Option<&str>,
        uri: &Uri,
    ) -> Result<Destination, RequestError> {
        let sni = sni.map(|name| self.of(name));
        let host = host.map(|host| host_name(host).map(|name| self.of(name)));
        let host = host.transpose()?;
        let disagree = |detail| Err(RequestError::WrongHost(detail));
        let named = match (sni, host) {
            (Some(NameOwner::Nothing), _) | (_, Some(NameOwner::Nothing)) => {
                return Err(RequestError::NoSuchCluster);
            }
            (Some(NameOwner::Cluster(a)), Some(NameOwner::Cluster(b))) if a == b => Some(a),
            (Some(NameOwner::Cluster(_)), Some(NameOwner::Cluster(_))) => {
                return disagree("they name different clusters");
            }
            (Some(NameOwner::Cluster(_)), Some(NameOwner::Stranger)) => {
                return disagree("TLS names a cluster, Host names something else");
            }
            // kubeconfigs with `tls-server-name` have the cluster there and the hub's address in Host.
            (Some(NameOwner::Cluster(a)), Some(NameOwner::Hub) | None) => Some(a),
            (Some(_), Some(NameOwner::Cluster(_))) => {
                return disagree("Host names a cluster, TLS names something else");
            }
            (None, Some(NameOwner::Cluster(b))) => Some(b),
            _ => None,
        };
        match named {
            Some(id) => Ok(Destination::Cluster(id, whole(uri), AddressForm::Name)),
            None => by_path(uri),
        }
    }

    /// Whether a request is for a cluster; also answers for a request that [`HubNames::locate`] rejects.
    pub(crate) fn is_for_a_cluster(
        &self,
        sni: Option<&str>,
        host: Option<&str>,
        path: &str,
    ) -> bool {
        let is_clusters =
            |name: &str| matches!(self.of(name), NameOwner::Cluster(_) | NameOwner::Nothing);
        path.starts_with(PATH_PREFIX)
            || sni.is_some_and(is_clusters)
            || host
                .and_then(|host| host_name(host).ok())
                .is_some_and(is_clusters)
    }

    fn of(&self, name: &str) -> NameOwner {
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_hub = name.eq_ignore_ascii_case(&self.hub)
            || name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok();
        if is_hub {
            return NameOwner::Hub;
        }
        let begin = name.len().checked_sub(self.suffix.len());
        let parts = begin.and_then(|begin| name.split_at_checked(begin));
        match parts {
            Some((label, suffix)) if suffix.eq_ignore_ascii_case(&self.suffix) => {
                let label = label.to_ascii_lowercase();
                recent_ids::parse(&label).map_or(NameOwner::Nothing, NameOwner::Cluster)
            }
            _ => NameOwner::Stranger,
        }
    }
}

/// The name in `host[:port]`.
pub(crate) fn host_name(host: &str) -> Result<&str, RequestError> {
    let bad = || RequestError::Malformed("its Host is invalid");
    let (name, port) = if let Some(v6) = host.strip_prefix('[') {
        v6.split_once(']').ok_or_else(bad)?
    } else {
        let colon = host.bytes().position(|it| it == b':');
        host.split_at(colon.unwrap_or(host.len()))
    };
    let port_ok = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|p| p.len() <= 5 && p.bytes().all(|b| b.is_ascii_digit()));
    let name_ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':');
    if name.is_empty() || !port_ok || !name.bytes().all(name_ok) {
        return Err(bad());
    }
    Ok(name)
}

fn whole(uri: &Uri) -> PathAndQuery {
    uri.path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
}

fn by_path(uri: &Uri) -> Result<Destination, RequestError> {
    if let Some((id, _)) = split_tcp_path(uri.path()) {
        let id = id.parse().map_err(|_| RequestError::NoSuchCluster)?;
        return Ok(Destination::Tcp(id));
    }
    let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let Some(rest) = whole.strip_prefix(PATH_PREFIX) else {
        return Ok(Destination::Hub);
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (id, rest) = rest.split_at(end);
    let id = recent_ids::parse(id).ok_or(RequestError::NoSuchCluster)?;
    let rest = match rest.as_bytes().first() {
        Some(b'/') => rest.to_owned(),
        _ => format!("/{rest}"),
    };
    let path = PathAndQuery::try_from(rest).map_err(RequestError::path)?;
    Ok(Destination::Cluster(id, path, AddressForm::Path))
}

#[cfg(test)]
mod tests;
