//! `/v1/services`: named services of clusters. The gateway follows them by [`NamedServices`], and reports its listeners.

mod check;
mod routes;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fairlead_api::resources::{ServiceName, ServicePorts, ServiceState};
use fairlead_routes::{ApiModule, ApiRoutes};
use fairlead_seam::{Module, NamedService, NamedServices, ServiceEntry};
use fairlead_store::{Clock, Store, View, model::ServiceRecord};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::{sync::watch, time::timeout};
use tracing::warn;

/// State of a service that was made before a restore.
const NOT_CONFIRMED: &str = "the service is older than the restore of the hub, which no admin has confirmed (`fairlead confirm-restore`)";
/// State of a service that the gateway has not handled yet.
const NOT_HANDLED: &str = "the hub does not listen for it yet";

/// Time for the gateway to handle a new service.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of named services.
#[derive(Debug, Clone, Default)]
pub struct ServiceSettings {
    /// Ports of the hub for services; `None`: services have no ports.
    pub ports: Option<ServicePorts>,
    /// Domain of the hosts of services, without a dot at its start; `None`: services have no hosts.
    pub domain: Option<String>,
}

/// State of the listener of each service, which is void for any other entry.
type ListenerStates = HashMap<ServiceName, (ServiceEntry, ServiceState)>;

/// Needs of the module.
struct ServiceParts {
    store: Store,
    clock: Clock,
    settings: ServiceSettings,
    /// The hub itself, and the domain of its clusters: no service has their names.
    hub_names: Vec<String>,
    /// States of the gateway's listeners.
    states: watch::Sender<ListenerStates>,
    /// True once a gateway follows the services.
    is_followed: AtomicBool,
}

/// Module of named services.
pub(crate) struct ServicesModule(Arc<ServiceParts>);

impl ServicesModule {
    pub(crate) fn new(
        (store, clock): (&Store, &Clock),
        settings: ServiceSettings,
        hub_names: Vec<String>,
    ) -> Self {
        ServicesModule(Arc::new(ServiceParts {
            store: store.clone(),
            clock: clock.clone(),
            settings,
            hub_names,
            states: watch::Sender::default(),
            is_followed: AtomicBool::new(false),
        }))
    }
}

impl Module for ServicesModule {
    fn name(&self) -> &'static str {
        "services"
    }

    fn named_services(&self) -> Option<Arc<dyn NamedServices>> {
        Some(Arc::clone(&self.0) as Arc<dyn NamedServices>)
    }
}

impl ApiModule for ServicesModule {
    fn api_routes(&self) -> ApiRoutes {
        routes::routes().with_state(Arc::clone(&self.0))
    }
}

impl ServiceParts {
    /// State of a service at this hub.
    fn state(&self, view: &View, service: &ServiceRecord) -> ServiceState {
        let failed = |cause: &str| ServiceState {
            listening: false,
            cause: Some(cause.to_owned()),
        };
        if !is_confirmed(view, service) {
            return failed(NOT_CONFIRMED);
        }
        let current = check::read(view, service);
        let known = current.and_then(|it| state_of(&self.states.borrow(), &it));
        known.unwrap_or_else(|| failed(NOT_HANDLED))
    }

    /// Waits until the gateway has handled a service, so that its author gets the state at once.
    async fn handled(&self, service: &ServiceRecord) {
        let current = check::read(&self.store.view(), service);
        let (Some(current), true) = (current, self.is_followed.load(Ordering::Relaxed)) else {
            return;
        };
        let mut states = self.states.subscribe();
        let reported = states.wait_for(|states| state_of(states, &current).is_some());
        // Without a state the answer tells that.
        let _ = timeout(REPORT_TIMEOUT, reported).await;
    }
}

fn state_of(states: &ListenerStates, service: &NamedService) -> Option<ServiceState> {
    let (entry, state) = states.get(&service.name)?;
    (*entry == service.entry).then(|| state.clone())
}

/// False for a service from before a restore: it may have been deleted since the backup.
fn is_confirmed(view: &View, service: &ServiceRecord) -> bool {
    view.authorities()
        .is_none_or(|hub| hub.value.admits_made_at(service.created))
}

impl NamedServices for ServiceParts {
    fn list(&self) -> Vec<NamedService> {
        let view = self.store.view();
        let records = view.services().map(|it| &it.value);
        let records = records.filter(|it| is_confirmed(&view, it));
        let services: Vec<NamedService> = records
            .filter_map(|record| {
                let service = check::read(&view, record);
                if service.is_none() {
                    warn!(service = %record.name, "stored service is not valid");
                }
                service
            })
            .collect();
        self.states.send_modify(|states| {
            states.retain(|name, _| services.iter().any(|it| it.name == *name));
        });
        services
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.is_followed.store(true, Ordering::Relaxed);
        let state = (self.store.watch(), self.store.clone(), self.store.view());
        stream::unfold(state, async |(mut revisions, store, mut known)| {
            loop {
                revisions.changed().await.ok()?;
                let view = store.view();
                let is_same = view.has_same_services(&known);
                known = view;
                if !is_same {
                    return Some(((), (revisions, store, known)));
                }
            }
        })
        .boxed()
    }

    fn report(&self, service: &NamedService, state: ServiceState) {
        let report = (service.entry.clone(), state);
        self.states.send_modify(|states| {
            states.insert(service.name.clone(), report);
        });
    }
}
