//! Metrics of what is registered, under the names that Lieutenant's operator uses, so that existing dashboards go on; counted
//! when somebody looks. Labels are ids that this registry has issued, and words of its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use fairlead_api::resources::Role;
use prometheus::{
    IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::{hub::Hub, store::View};

pub(super) struct Registered {
    /// The hub may end before whoever counts it.
    hub: Weak<Hub>,
    clusters: IntGaugeVec,
    tenants: IntGaugeVec,
    compiled: IntGaugeVec,
    tokens: IntGaugeVec,
    bootstraps: IntGaugeVec,
}

impl Registered {
    /// # Errors
    /// A name or a label that Prometheus does not know.
    pub(super) fn new(hub: &Arc<Hub>) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            IntGaugeVec::new(Opts::new(name, help), labels)
        };
        Ok(Registered {
            hub: Arc::downgrade(hub),
            clusters: gauge(
                "syn_lieutenant_cluster_info",
                "Registered clusters; always 1.",
                &["cluster", "tenant"],
            )?,
            tenants: gauge(
                "syn_lieutenant_tenant_info",
                "Tenants; always 1.",
                &["tenant"],
            )?,
            compiled: gauge(
                "syn_lieutenant_compile_meta_last_compile",
                "When a cluster's catalog was last compiled, in seconds since 1970.",
                &["cluster", "tenant"],
            )?,
            tokens: gauge("fairlead_tokens", "Valid API tokens.", &["role"])?,
            bootstraps: gauge(
                "fairlead_bootstrap_tokens",
                "Current bootstrap tokens of the clusters.",
                &["state"],
            )?,
        })
    }

    fn gauges(&self) -> [&IntGaugeVec; 5] {
        [
            &self.clusters,
            &self.tenants,
            &self.compiled,
            &self.tokens,
            &self.bootstraps,
        ]
    }

    fn count(&self, hub: &Hub, view: &View) {
        let now = hub.now();
        let mut states =
            BTreeMap::from([("valid", 0), ("used", 0), ("expired", 0), ("revoked", 0)]);
        for record in view.clusters() {
            let cluster = &record.value;
            let labels = [cluster.id.as_str(), cluster.tenant.as_str()];
            self.clusters.with_label_values(&labels).set(1);
            let last = cluster.compile_meta.as_ref().and_then(|it| it.last_compile);
            if let Some(at) = last {
                self.compiled
                    .with_label_values(&labels)
                    .set(at.unix_timestamp());
            }
            let bootstrap = &cluster.binding.bootstrap;
            let state = match (bootstrap.revoked, &bootstrap.spent_by) {
                (true, _) => "revoked",
                (false, Some(_)) => "used",
                (false, None) if bootstrap.open(now) => "valid",
                (false, None) => "expired",
            };
            *states.entry(state).or_default() += 1;
        }
        for (state, count) in states {
            self.bootstraps.with_label_values(&[state]).set(count);
        }
        for record in view.tenants() {
            let labels = [record.value.id.as_str()];
            self.tenants.with_label_values(&labels).set(1);
        }
        for role in Role::ALL {
            let valid = view.tokens().map(|it| &it.value);
            let valid = valid.filter(|it| it.role == role && now < it.expires);
            let count = i64::try_from(valid.count()).unwrap_or(i64::MAX);
            self.tokens.with_label_values(&[role.as_str()]).set(count);
        }
    }
}

impl Collector for Registered {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges()
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(hub) = self.hub.upgrade() else {
            return Vec::new();
        };
        for gauge in self.gauges() {
            gauge.reset();
        }
        self.count(&hub, &hub.store.view());
        self.gauges()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}
