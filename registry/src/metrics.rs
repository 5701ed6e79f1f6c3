//! Metrics of registered resources under the names of Lieutenant's operator, so that existing
//! dashboards keep working. They are computed on each scrape.
//!
//! Labels are ids issued by this registry, fixed words, and where Lieutenant has them, texts of
//! users. Those texts are truncated, and their number is limited (`docs/api.md`).

mod compiled;
mod facts;
mod family;
mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use fairlead_api::resources::Role;
use fairlead_store::{
    View, millis,
    model::{Cluster, RepoPhase},
};
use prometheus::{
    core::{Collector, Desc},
    proto::MetricFamily,
};
use time::OffsetDateTime;

use crate::{registry::Registry, template::template_of};
use compiled::{CompileMetrics, left_out};
use facts::FactMetrics;
use family::{Family, number};
use status::StatusMetrics;

pub(super) struct RegistryMetrics {
    /// Weak: the metrics registry may outlive the hub.
    registry: Weak<Registry>,
    descriptions: Vec<Desc>,
}

impl RegistryMetrics {
    /// Creates the collector.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(super) fn new(registry: &Arc<Registry>) -> prometheus::Result<Self> {
        let families = count(registry, &View::default());
        let descriptions = families.iter().map(Family::describe);
        Ok(RegistryMetrics {
            registry: Arc::downgrade(registry),
            descriptions: descriptions.collect::<prometheus::Result<_>>()?,
        })
    }
}

impl Collector for RegistryMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(registry) = self.registry.upgrade() else {
            return Vec::new();
        };
        let families = count(&registry, &registry.store.view());
        families.into_iter().map(Family::into_proto).collect()
    }
}

fn count(registry: &Registry, view: &View) -> Vec<Family> {
    let now = registry.now();
    let mut compiled = CompileMetrics::new();
    let mut facts = FactMetrics::new(&registry.settings.metric_facts, registry.settings.reporting);
    let mut status_metrics = StatusMetrics::new();
    let mut clusters = Family::new(
        "syn_lieutenant_cluster_info",
        "RegistryMetrics clusters; always 1.",
    );
    let mut states = BTreeMap::from([("valid", 0), ("used", 0), ("expired", 0), ("revoked", 0)]);
    for record in view.clusters() {
        let cluster = &record.value;
        let labels = [
            ("cluster", cluster.id.as_str()),
            ("tenant", cluster.tenant.as_str()),
            ("display_name", cluster.shown_name()),
        ];
        clusters.add(labels, 1.0);
        compiled.add(cluster);
        let observed = registry.store.observed_of(record);
        status_metrics.add(cluster, &observed.status);
        facts.add(cluster, &observed, millis(now));
        *states.entry(bootstrap_state(cluster, now)).or_default() += 1;
    }
    let mut bootstraps = Family::new(
        "fairlead_bootstrap_tokens",
        "Current bootstrap tokens of the clusters.",
    );
    for (state, count) in states {
        bootstraps.add([("state", state)], number(count));
    }
    let mut families = vec![clusters, tenants(view), tokens(view, now), bootstraps];
    families.push(repositories(registry, view));
    families.extend(status_metrics.into_families());
    families.extend(compiled.into_families());
    families.extend(facts.into_families());
    families.push(revision(view));
    let mut missing = Family::new(
        "fairlead_metrics_left_out",
        "Rows of this page for which there was no room.",
    );
    missing.add([], left_out(&families));
    families.push(missing);
    families
}

fn bootstrap_state(cluster: &Cluster, now: OffsetDateTime) -> &'static str {
    let bootstrap = &cluster.binding.bootstrap;
    match (bootstrap.revoked, &bootstrap.spent_by) {
        (true, _) => "revoked",
        (false, Some(_)) => "used",
        (false, None) if bootstrap.open(now) => "valid",
        (false, None) => "expired",
    }
}

fn tenants(view: &View) -> Family {
    let mut tenants = Family::new("syn_lieutenant_tenant_info", "Tenants; always 1.");
    for record in view.tenants() {
        let tenant = &record.value;
        let name = tenant.display_name.as_deref();
        let name = name.unwrap_or(tenant.id.as_str());
        tenants.add(
            [("tenant", tenant.id.as_str()), ("display_name", name)],
            1.0,
        );
    }
    tenants
}

fn repositories(registry: &Registry, view: &View) -> Family {
    let repositories = registry.services.repositories.as_ref();
    let of_tenants = view.tenants().map(|it| repositories.of_tenant(&it.value));
    let of_clusters = view.clusters().map(|it| {
        let template = template_of(view, &it.value.tenant);
        repositories.of_cluster(&it.value, template)
    });
    let mut counts = BTreeMap::from(RepoPhase::ALL.map(|phase| (phase, 0)));
    for state in of_tenants.chain(of_clusters).flatten() {
        *counts.entry(state.phase).or_default() += 1;
    }
    let mut repositories = Family::new(
        "fairlead_git_repositories",
        "Git repositories of tenants and clusters by how it stands with them.",
    );
    for (phase, count) in counts {
        repositories.add([("phase", phase.as_str())], number(count));
    }
    repositories
}

/// API tokens; expired ones are counted for a week.
fn tokens(view: &View, now: OffsetDateTime) -> Family {
    let mut tokens = Family::new("fairlead_tokens", "API tokens.");
    for role in Role::ALL {
        let of_role = view.tokens().filter(|it| it.value.role == role);
        let (valid, expired): (Vec<_>, Vec<_>) = of_role.partition(|it| now < it.value.expires);
        for (state, count) in [("valid", valid.len()), ("expired", expired.len())] {
            tokens.add([("role", role.as_str()), ("state", state)], number(count));
        }
    }
    tokens
}

fn revision(view: &View) -> Family {
    let mut revision = Family::new(
        "fairlead_store_revision",
        "The last change of the registry that this hub knows of.",
    );
    let at = usize::try_from(view.revision().0).unwrap_or(usize::MAX);
    revision.add([], number(at));
    revision
}
