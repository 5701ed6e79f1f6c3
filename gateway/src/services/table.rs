//! The current named services, for the request path.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use fairlead_api::{Code, Failure, resources::ServiceName};
use fairlead_seam::{NamedService, ServiceEntry};
use http::{Request, header, uri::Authority};

use super::TargetConnections;
use crate::front::address::host_name;

/// The current named services. Reads never wait for the module.
#[derive(Default)]
pub(crate) struct ServiceTable {
    current: RwLock<Arc<CurrentServices>>,
    /// Without such services no request and no handshake pays for a lookup.
    has_http_hosts: AtomicBool,
    has_tls_names: AtomicBool,
}

#[derive(Default)]
struct CurrentServices {
    by_name: HashMap<ServiceName, CurrentService>,
    by_port: HashMap<u16, Arc<NamedService>>,
    by_http_host: HashMap<String, Arc<NamedService>>,
    by_tls_name: HashMap<String, Arc<NamedService>>,
}

struct CurrentService {
    service: Arc<NamedService>,
    connections: Arc<TargetConnections>,
}

impl ServiceTable {
    /// Replaces all services. Those that are unchanged keep their idle connections.
    pub(crate) fn replace<'a>(&self, services: impl IntoIterator<Item = &'a NamedService>) {
        let before = self.current();
        let mut current = CurrentServices::default();
        for service in services {
            let service = Arc::new(service.clone());
            let copy = Arc::clone(&service);
            match &service.entry {
                ServiceEntry::Port(port) => current.by_port.insert(*port, copy),
                ServiceEntry::HttpHost { host, .. } => {
                    current.by_http_host.insert(host.as_str().to_owned(), copy)
                }
                ServiceEntry::TlsName(name) => {
                    current.by_tls_name.insert(name.as_str().to_owned(), copy)
                }
            };
            let connections = before.connections(&service).unwrap_or_default();
            let name = service.name.clone();
            let service = CurrentService {
                service,
                connections,
            };
            current.by_name.insert(name, service);
        }
        let has_http_hosts = !current.by_http_host.is_empty();
        let has_tls_names = !current.by_tls_name.is_empty();
        let mut table = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *table = Arc::new(current);
        self.has_http_hosts.store(has_http_hosts, Ordering::Relaxed);
        self.has_tls_names.store(has_tls_names, Ordering::Relaxed);
    }

    /// The service by http with this host, in any case.
    fn of_http_host(&self, host: &str) -> Option<Arc<NamedService>> {
        self.current().by_http_host.get(&normal(host)).cloned()
    }

    /// The service by http that the host of the request names.
    pub(crate) fn of_request<B>(&self, request: &Request<B>) -> Option<Arc<NamedService>> {
        if !self.has_http_hosts.load(Ordering::Relaxed) {
            return None;
        }
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|it| it.to_str().ok());
        let target = request.uri().authority().map(Authority::as_str);
        self.of_http_host(host_name(target.or(host)?).ok()?)
    }

    /// True if some service has a server name of TLS.
    pub(crate) fn has_tls_names(&self) -> bool {
        self.has_tls_names.load(Ordering::Relaxed)
    }

    /// The service with this server name of TLS, in any case.
    pub(crate) fn of_tls_name(&self, name: &str) -> Option<Arc<NamedService>> {
        self.current().by_tls_name.get(&normal(name)).cloned()
    }

    /// Checks that the service was neither deleted nor changed.
    ///
    /// # Errors
    /// `FL-1205`
    pub(crate) fn check(&self, service: &NamedService) -> Result<(), Failure> {
        match self.is_current(service) {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// Idle connections to the target of the service.
    ///
    /// # Errors
    /// `FL-1205` once it was deleted or changed.
    pub(crate) fn connections(
        &self,
        service: &NamedService,
    ) -> Result<Arc<TargetConnections>, Failure> {
        self.current().connections(service).ok_or_else(changed)
    }

    /// The service that has this port.
    pub(crate) fn of_port(&self, port: u16) -> Option<Arc<NamedService>> {
        self.current().by_port.get(&port).cloned()
    }

    /// False once the service was deleted or changed.
    fn is_current(&self, service: &NamedService) -> bool {
        self.current().current(service).is_some()
    }

    fn current(&self) -> Arc<CurrentServices> {
        let table = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&table)
    }
}

impl CurrentServices {
    /// `None` if the service was deleted or changed.
    fn current(&self, service: &NamedService) -> Option<&CurrentService> {
        let now = self.by_name.get(&service.name);
        now.filter(|now| *now.service == *service)
    }

    fn connections(&self, service: &NamedService) -> Option<Arc<TargetConnections>> {
        let current = self.current(service)?;
        Some(Arc::clone(&current.connections))
    }
}

fn changed() -> Failure {
    Failure::because(Code::AccessEnded, "the service was deleted or changed")
}

/// A host as services have it.
fn normal(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(port: u16) -> NamedService {
        NamedService {
            name: "db".parse().unwrap(),
            cluster: "c-demo".parse().unwrap(),
            tenant: "t-acme".parse().unwrap(),
            target: "db.shop:5432".parse().unwrap(),
            entry: ServiceEntry::Port(port),
            from: vec!["10.0.0.0/8".parse().unwrap()],
        }
    }

    #[test]
    fn changed_and_deleted_services_are_not_current() {
        let table = ServiceTable::default();
        let (first, second) = (service(20_000), service(20_001));
        table.replace([&first]);
        assert!(table.is_current(&first) && !table.is_current(&second));
        assert_eq!(table.of_port(20_000).as_deref(), Some(&first));
        table.replace([&second]);
        assert!(!table.is_current(&first) && table.of_port(20_000).is_none());
        table.replace([]);
        assert!(!table.is_current(&second));
    }
}
