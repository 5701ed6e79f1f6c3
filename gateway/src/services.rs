//! Named services at this hub: the current ones, and a listener for each port.

mod connections;
mod table;

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use fairlead_api::resources::ServiceState;
use fairlead_runtime::listen;
use fairlead_seam::{NamedService, NamedServices, ServiceEntry};
use futures_util::StreamExt;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

pub(crate) use self::{connections::TargetConnections, table::ServiceTable};
use crate::{front::Front, hub::Hub};

/// Interval of attempts to listen at a port that another program has.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Listeners by port.
#[derive(Default)]
struct Listeners {
    /// Each listener ends when its guard is dropped.
    open: HashMap<u16, DropGuard>,
    /// Ports whose failure is in the log.
    failed: HashSet<u16>,
}

/// Follows the services of the module until the hub takes no new requests.
pub(crate) async fn follow(hub: Arc<Hub>, services: Arc<dyn NamedServices>) {
    let mut listeners = Listeners::default();
    // Before the first list, so that no change between both is lost.
    let mut changes = services.changes();
    loop {
        let current = services.list();
        // Another hub with another name may have made the service.
        let foreign = current.iter().filter(|it| !has_own_name(&hub, it));
        hub.services.replace(foreign);
        let ports = current.iter().filter_map(port_of);
        let ports: Vec<u16> = ports.collect();
        listeners.open.retain(|port, _| ports.contains(port));
        listeners.failed.retain(|port| ports.contains(port));
        let mut failed = 0;
        for service in &current {
            let state = state(&hub, service, &mut listeners);
            failed += i64::from(!state.listening);
            services.report(service, state);
        }
        hub.metrics.services_failed.set(failed);
        tokio::select! {
            changed = changes.next() => if changed.is_none() { return },
            () = sleep(RETRY_INTERVAL), if failed > 0 => {}
            () = hub.closing.cancelled() => return,
        }
    }
}

fn port_of(service: &NamedService) -> Option<u16> {
    match service.entry {
        ServiceEntry::Port(port) => Some(port),
        ServiceEntry::HttpHost { .. } | ServiceEntry::TlsName(_) => None,
    }
}

/// True for a service with a name of this hub: its requests are the hub's own.
fn has_own_name(hub: &Hub, service: &NamedService) -> bool {
    match &service.entry {
        ServiceEntry::Port(_) => false,
        ServiceEntry::HttpHost { host, .. } | ServiceEntry::TlsName(host) => {
            hub.names.has(host.as_str())
        }
    }
}

/// State of a service, after an attempt to listen at its port.
fn state(hub: &Arc<Hub>, service: &NamedService, listeners: &mut Listeners) -> ServiceState {
    let failed = |cause: String| ServiceState {
        listening: false,
        cause: Some(cause),
    };
    let listening = ServiceState {
        listening: true,
        cause: None,
    };
    if has_own_name(hub, service) {
        return failed("the hub itself or its clusters have this host".to_owned());
    }
    let Some(port) = port_of(service) else {
        return listening;
    };
    if listeners.open.contains_key(&port) {
        return listening;
    }
    let Some(address) = hub.service_listen else {
        return failed("this hub has no `--service-listen`".to_owned());
    };
    match listen(hub, address, port) {
        Ok(guard) => {
            listeners.open.insert(port, guard);
            listeners.failed.remove(&port);
            info!(service = %service.name, port, "service listens");
            listening
        }
        Err(cause) => {
            // Once, not with each attempt.
            if listeners.failed.insert(port) {
                warn!(service = %service.name, port, cause, "service cannot listen");
            }
            failed(cause)
        }
    }
}

fn listen(hub: &Arc<Hub>, address: IpAddr, port: u16) -> Result<DropGuard, String> {
    let listener = listen::bind(SocketAddr::new(address, port)).map_err(|failure| failure.cause)?;
    let over = CancellationToken::new();
    let (hub, ended) = (Arc::clone(hub), over.clone());
    hub.process.clone().spawn(async move {
        let front = Front::new(&hub);
        let serve = move |socket, peer| front.clone().serve_service(port, socket, peer);
        let closed = async {
            tokio::select! {
                () = ended.cancelled() => {}
                () = hub.closing.cancelled() => {}
            }
        };
        listen::accept_loop(listener, &hub.process, closed, serve).await;
    });
    Ok(over.drop_guard())
}
