//! Output of a change: the rows to write, a log line per touched resource, and a row per changed
//! fact.

use std::{fmt, sync::Arc};

use fairlead_api::{ClusterId, TenantId, resources::Operation};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::{
    audience::Audience,
    backend::{ChangeBatch, DocumentRow},
    document::StoredDocument,
    draft::Draft,
    error::{Result, StoreError},
    history::{Change, FactVersion},
    millis::millis,
    model::{
        AccessGrant, AccessLock, Authorities, BundleRecord, BundleSource, Cluster, ClusterGroup,
        ConfirmedHostKeys, FactSource, Facts, FleetUpgrade, GitCredential, PendingAdoption, Person,
        RetiredRepository, RetiredVaultAccess, ServiceRecord, Tenant, Token,
    },
    record::{Kind, Record},
    revision::Revision,
    view::View,
};

/// Placeholder for a secret in the log.
const REDACTED: &str = "(hidden)";

/// Originator of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A caller of the API.
    Caller {
        /// Name of the token or the issuer's user.
        name: String,
        /// Id of the API token; `None` for a caller of an external issuer.
        token: Option<String>,
    },
    /// A cluster's agent, or the holder of its bootstrap token.
    Agent(ClusterId),
    /// The hub itself, or its operator.
    Hub,
}

impl fmt::Display for Actor {
    /// A caller's name contains no colon except after the id of a tenant or cluster.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Caller { name, .. } => f.write_str(name),
            Actor::Agent(cluster) => write!(f, "agent:{cluster}"),
            Actor::Hub => f.write_str("system:hub"),
        }
    }
}

/// Actor and time shared by all lines of one change.
struct Journal<'a> {
    batch: &'a mut ChangeBatch,
    revision: Revision,
    actor: String,
    actor_token: Option<String>,
    at: OffsetDateTime,
    part: u32,
}

/// Adds the changes of a draft to a batch; false if there are none.
pub(super) fn record(
    draft: &Draft,
    actor: &Actor,
    at: OffsetDateTime,
    batch: &mut ChangeBatch,
) -> Result<bool> {
    let mut journal = Journal {
        batch,
        revision: draft.next_revision(),
        actor: actor.to_string(),
        actor_token: match actor {
            Actor::Caller { token, .. } => token.clone(),
            Actor::Agent(_) | Actor::Hub => None,
        },
        at,
        part: 0,
    };
    for id in &draft.tenants {
        journal.document::<Tenant>(draft, id)?;
    }
    for id in &draft.clusters {
        if let Some((before, after)) = journal.document::<Cluster>(draft, id)? {
            journal.facts(id, before.as_deref(), after.as_deref());
        }
    }
    for id in &draft.tokens {
        journal.document::<Token>(draft, id)?;
    }
    for id in &draft.authorities {
        journal.document::<Authorities>(draft, id)?;
    }
    for id in &draft.locks {
        journal.document::<AccessLock>(draft, id)?;
    }
    for id in &draft.people {
        journal.document::<Person>(draft, id)?;
    }
    for id in &draft.host_keys {
        journal.document::<ConfirmedHostKeys>(draft, id)?;
    }
    for id in &draft.credentials {
        journal.document::<GitCredential>(draft, id)?;
    }
    for id in &draft.retired {
        journal.document::<RetiredRepository>(draft, id)?;
    }
    for id in &draft.retired_vault {
        journal.document::<RetiredVaultAccess>(draft, id)?;
    }
    for id in &draft.services {
        journal.document::<ServiceRecord>(draft, id)?;
    }
    for id in &draft.access {
        journal.document::<AccessGrant>(draft, id)?;
    }
    for id in &draft.adoptions {
        journal.document::<PendingAdoption>(draft, id)?;
    }
    for id in &draft.upgrades {
        journal.document::<FleetUpgrade>(draft, id)?;
    }
    for id in &draft.delivery.sources {
        journal.document::<BundleSource>(draft, id)?;
    }
    for id in &draft.delivery.bundles {
        journal.document::<BundleRecord>(draft, id)?;
    }
    for id in &draft.delivery.groups {
        journal.document::<ClusterGroup>(draft, id)?;
    }
    for (cluster, body) in &draft.catalogs {
        journal.catalog(draft, cluster, body);
    }
    let changed = journal.part > 0;
    if changed {
        batch.revision = draft.next_revision();
    }
    Ok(changed)
}

type Pair<T> = (Option<Arc<Record<T>>>, Option<Arc<Record<T>>>);

impl Journal<'_> {
    fn document<T: StoredDocument>(
        &mut self,
        draft: &Draft,
        id: &T::Id,
    ) -> Result<Option<Pair<T>>> {
        let before = T::records(&draft.base).get(id).cloned();
        let after = T::records(&draft.view).get(id).cloned();
        let (operation, record) = match (&before, &after) {
            (None, None) => return Ok(None),
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) => return Ok(None),
            (None, Some(after)) => (Operation::Created, after),
            (Some(_), Some(after)) => (Operation::Updated, after),
            (Some(before), None) => (Operation::Deleted, before),
        };
        let (mut was, mut is) = (json_of(before.as_deref())?, json_of(after.as_deref())?);
        let body = is.as_ref().map(Value::to_string);
        for value in [&mut was, &mut is].into_iter().flatten() {
            hide::<T>(value);
        }
        let (was, is) = match (was, is) {
            (Some(mut was), Some(mut is)) => {
                remove_equal_parts(&mut was, &mut is);
                (Some(was), Some(is))
            }
            one_sided => one_sided,
        };
        self.line(Change {
            revision: self.revision,
            part: self.part,
            at: self.at,
            actor: self.actor.clone(),
            actor_token: self.actor_token.clone(),
            kind: T::KIND,
            id: id.to_string(),
            tenant: record.value.tenant().cloned(),
            operation,
            before: was,
            after: is,
            audience: Some(Audience {
                before: seen_by(&draft.base, before.as_deref()),
                after: seen_by(&draft.view, after.as_deref()),
            }),
        });
        let row = DocumentRow {
            kind: T::KIND,
            id: id.to_string(),
            version: record.version,
            revision: self.revision,
            body,
        };
        if T::KIND == Kind::Cluster && row.body.is_none() {
            self.batch.gone.insert(row.id.clone());
            self.batch.catalogs.remove(&row.id);
        }
        self.batch.documents.insert((T::KIND, row.id.clone()), row);
        Ok(Some((before, after)))
    }

    fn catalog(&mut self, draft: &Draft, cluster: &ClusterId, body: &str) {
        let Some(head) = draft.view.catalog(cluster) else {
            return;
        };
        let before = draft.base.catalog(cluster);
        let of = draft.view.cluster(cluster);
        let was_of = before.and_then(|_| draft.base.cluster(cluster));
        let tenant = of.map(|it| it.value.tenant.clone());
        self.line(Change {
            revision: self.revision,
            part: self.part,
            at: self.at,
            actor: self.actor.clone(),
            actor_token: self.actor_token.clone(),
            kind: Kind::Catalog,
            id: cluster.to_string(),
            tenant,
            operation: before.map_or(Operation::Created, |_| Operation::Updated),
            // Catalogs may contain secrets, so only versions are logged.
            before: before.map(|head| json!({ "version": head.version })),
            after: Some(json!({ "version": head.version })),
            audience: Some(Audience {
                before: seen_by(&draft.base, was_of.map(AsRef::as_ref)),
                after: seen_by(&draft.view, of.map(AsRef::as_ref)),
            }),
        });
        let row = DocumentRow {
            kind: Kind::Catalog,
            id: cluster.to_string(),
            version: head.version,
            revision: self.revision,
            body: Some(body.to_owned()),
        };
        self.batch.catalogs.insert(row.id.clone(), row);
    }

    fn line(&mut self, row: Change) {
        self.batch.log.push(row);
        self.part += 1;
    }

    fn facts(
        &mut self,
        cluster: &ClusterId,
        before: Option<&Record<Cluster>>,
        after: Option<&Record<Cluster>>,
    ) {
        let none = Facts::new();
        let was = before.map_or((&none, &none), |it| {
            (&it.value.facts, &it.value.dynamic_facts)
        });
        let is = after.map_or((&none, &none), |it| {
            (&it.value.facts, &it.value.dynamic_facts)
        });
        self.changed_facts(cluster, false, was.0, is.0);
        self.changed_facts(cluster, true, was.1, is.1);
    }

    fn changed_facts(&mut self, cluster: &ClusterId, dynamic: bool, was: &Facts, is: &Facts) {
        let row = |name: &String, source: FactSource, observed, value| FactVersion {
            cluster: cluster.clone(),
            name: name.clone(),
            dynamic,
            at: millis(self.at),
            revision: self.revision,
            source,
            observed,
            value,
        };
        let changed = is.iter().filter(|(name, fact)| {
            let before = was.get(*name);
            before.is_none_or(|before| (&before.value, before.source) != (&fact.value, fact.source))
        });
        let changed = changed
            .map(|(name, fact)| row(name, fact.source, fact.observed, Some(fact.value.clone())));
        let gone = was.iter().filter(|(name, _)| !is.contains_key(*name));
        let gone = gone.map(|(name, fact)| row(name, fact.source, millis(self.at), None));
        let rows: Vec<_> = changed.chain(gone).collect();
        self.batch.facts.extend(rows);
    }
}

fn seen_by<T: StoredDocument>(view: &View, record: Option<&Record<T>>) -> Vec<TenantId> {
    record.map_or_else(Vec::new, |it| it.value.seen_by(view))
}

fn json_of<T: StoredDocument>(record: Option<&Record<T>>) -> Result<Option<Value>> {
    let value = record.map(|it| serde_json::to_value(&it.value)).transpose();
    value.map_err(|error| StoreError::Damaged(error.to_string()))
}

fn hide<T: StoredDocument>(value: &mut Value) {
    for name in T::HIDDEN {
        if let Some(field) = value.get_mut(*name) {
            *field = REDACTED.into();
        }
    }
}

/// Removes equal parts from both values.
fn remove_equal_parts(was: &mut Value, is: &mut Value) {
    let (Value::Object(was), Value::Object(is)) = (was, is) else {
        return;
    };
    let same: Vec<String> = was
        .iter()
        .filter(|(key, value)| is.get(*key) == Some(*value))
        .map(|(key, _)| key.clone())
        .collect();
    for key in same {
        was.remove(&key);
        is.remove(&key);
    }
    deeper(was, is);
}

fn deeper(was: &mut Map<String, Value>, is: &mut Map<String, Value>) {
    for (key, was) in was.iter_mut() {
        if let Some(is) = is.get_mut(key) {
            remove_equal_parts(was, is);
        }
    }
}
