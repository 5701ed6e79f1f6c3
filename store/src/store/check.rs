//! Integrity check of the store: the database is intact, documents are readable and reference
//! existing ones, the change log is complete and matches the current state, and so does the history
//! of facts.

use std::collections::BTreeMap;

use fairlead_api::ClusterId;

use super::Store;
use crate::{
    backend::LogSummary, document::whole, error::Result, model::Facts, record::Kind,
    revision::Revision, view::View,
};

impl Store {
    /// Checks everything; one sentence per defect. Reads all documents, the whole log and each
    /// cluster's history.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError) if it cannot be read, or contains an unreadable document.
    pub async fn check(&self) -> Result<Vec<String>> {
        let backend = self.shared.backend.as_ref();
        let mut defects = backend.integrity().await?;
        let view = whole(backend).await?;
        let log_summary = backend.log_summary().await?;
        if log_summary.revision != view.revision.0 {
            // A concurrent write happened; the remaining checks would compare two states.
            return Ok(defects);
        }
        references(&view, &mut defects);
        log(&log_summary, &mut defects);
        last_lines(&view, &log_summary, &mut defects);
        for cluster in view.clusters() {
            let id = &cluster.value.id;
            let facts = (&cluster.value.facts, &cluster.value.dynamic_facts);
            self.facts_agree(id, facts, &mut defects).await?;
        }
        Ok(defects)
    }

    async fn facts_agree(
        &self,
        id: &ClusterId,
        (static_facts, dynamic): (&Facts, &Facts),
        defects: &mut Vec<String>,
    ) -> Result<()> {
        let kept = self.facts_at(id, None, i64::MAX).await?;
        let kept: BTreeMap<_, _> = kept
            .into_iter()
            .map(|it| ((it.dynamic, it.name), it.value))
            .collect();
        let now = |dynamic: bool, facts: &Facts| {
            let facts = facts.iter();
            let facts =
                facts.map(|(name, fact)| ((dynamic, name.clone()), Some(fact.value.clone())));
            facts.collect::<Vec<_>>()
        };
        let now = [now(false, static_facts), now(true, dynamic)].concat();
        if kept != now.into_iter().collect() {
            defects.push(format!(
                "the history of facts of {id} does not match its current facts"
            ));
        }
        Ok(())
    }
}

fn references(view: &View, defects: &mut Vec<String>) {
    for tenant in view.tenants() {
        let tenant = &tenant.value;
        let Some(parent) = &tenant.parent else {
            continue;
        };
        if view.tenant(parent).is_none() {
            defects.push(format!(
                "{} has the parent {parent}, which does not exist",
                tenant.id
            ));
        } else if view.within(parent, &tenant.id) {
            defects.push(format!("{} is its own ancestor", tenant.id));
        }
    }
    for cluster in view.clusters() {
        let cluster = &cluster.value;
        if view.tenant(&cluster.tenant).is_none() {
            let (id, tenant) = (&cluster.id, &cluster.tenant);
            defects.push(format!("{id} belongs to {tenant}, which does not exist"));
        }
    }
    for token in view.tokens() {
        let token = &token.value;
        let lost = (token.tenant.as_ref()).is_some_and(|id| view.tenant(id).is_none())
            || (token.cluster.as_ref()).is_some_and(|id| view.cluster(id).is_none());
        if lost {
            defects.push(format!(
                "token {} refers to a missing tenant or cluster",
                token.id
            ));
        }
    }
    for cluster in view.catalogs.keys() {
        if view.cluster(cluster).is_none() {
            defects.push(format!("a catalog of {cluster}, which does not exist"));
        }
    }
}

fn log(log_summary: &LogSummary, defects: &mut Vec<String>) {
    let expected = log_summary.revision.saturating_sub(log_summary.compacted);
    if log_summary.changes != expected {
        let found = log_summary.changes;
        defects.push(format!("the log has {found} changes, expected {expected}"));
    }
    if log_summary.torn > 0 {
        defects.push(format!(
            "{} changes lack a line in the log",
            log_summary.torn
        ));
    }
}

/// The last log line of each resource matches its current state.
fn last_lines(view: &View, log_summary: &LogSummary, defects: &mut Vec<String>) {
    for line in &log_summary.last {
        let kept = kept(view, line.kind, &line.id);
        let logged = line.body.as_ref().map(|_| line.revision);
        // A catalog is deleted with its cluster, without a log line of its own.
        let gone = line.kind == Kind::Catalog && kept.is_none();
        if kept != logged && !gone {
            defects.push(format!(
                "the last log line does not match {} {}",
                line.kind, line.id
            ));
        }
    }
}

fn kept(view: &View, kind: Kind, id: &str) -> Option<Revision> {
    match kind {
        Kind::Tenant => Some(view.tenant(&id.parse().ok()?)?.revision),
        Kind::Cluster => Some(view.cluster(&id.parse().ok()?)?.revision),
        Kind::Token => Some(view.token(id)?.revision),
        Kind::Authority => Some(view.authorities().filter(|it| it.value.id == id)?.revision),
        Kind::Lock => Some(view.lock(id)?.revision),
        Kind::Person => Some(view.person(id)?.revision),
        Kind::HostKeys => Some(view.host_keys(id)?.revision),
        Kind::Credential => Some(view.git_credential(id)?.revision),
        Kind::Repository => Some(view.retired_repository(id)?.revision),
        Kind::Adoption => Some(view.adoption(id)?.revision),
        Kind::Vault => Some(view.retired_vault_access(id)?.revision),
        Kind::Service => Some(view.service(&id.parse().ok()?)?.revision),
        Kind::Upgrade => Some(view.fleet_upgrade(id)?.revision),
        Kind::Access => Some(view.access_request(id)?.revision),
        Kind::Source => Some(view.source(&id.parse().ok()?)?.revision),
        Kind::Bundle => Some(view.bundle(&id.parse().ok()?)?.revision),
        Kind::Group => Some(view.group(&id.parse().ok()?)?.revision),
        Kind::Catalog => Some(view.catalog(&id.parse().ok()?)?.revision),
    }
}
