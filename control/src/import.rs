//! What Project Syn's Lieutenant keeps as Kubernetes objects (`syn.tools/v1alpha1`: Tenant, TenantTemplate, Cluster, GitRepo),
//! as documents of this hub's API. Pure: whoever imports reads the objects and sends the documents.
//!
//! Nothing is left out in silence: what has no place here is told, by object and field. Secrets are never taken.

mod cluster;
mod diff;
mod object;
mod repo;
mod tenant;

use std::collections::BTreeMap;

use fairlead_api::{ClusterId, Code, Failure, TenantId};
use serde_json::{Map, Value};

pub use diff::{Difference, differences};
use object::{Kind, Object};

/// Documents in the order in which they have to be sent: a cluster needs its tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub tenants: Vec<PlannedTenant>,
    pub clusters: Vec<PlannedCluster>,
    /// One line each: what was not taken, and why.
    pub left_out: Vec<String>,
}

/// For `PUT /tenants/{id}`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTenant {
    pub id: TenantId,
    pub document: Value,
}

/// For `PUT /clusters/{id}`, and what belongs to it but has routes of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCluster {
    pub id: ClusterId,
    pub document: Value,
    /// For `POST /v1/clusters/{id}/facts/imported`, as `facts`; an object.
    pub dynamic_facts: Option<Value>,
    /// For `POST /clusters/{id}/compileMeta`.
    pub compile_meta: Option<Value>,
    /// Whether its bootstrap token could still be used: where it could not, no new one is open after the import, either.
    pub awaits_agent: bool,
}

/// Reads objects of Kubernetes from YAML or JSON: one, several in a stream, a list of them, or a catalog of this hub.
///
/// # Errors
/// `FL-4109` if it is neither.
pub fn read(text: &str) -> Result<Vec<Value>, Failure> {
    let invalid = |error: &dyn std::fmt::Display| Failure::because(Code::Invalid, error);
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| invalid(&error))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            // What stands between two separators.
            Value::Null => {}
            Value::Object(mut object) => match list_of(&mut object) {
                Some(items) => objects.extend(items),
                None => objects.push(object.into()),
            },
            _ => return Err(invalid(&"that is no object of Kubernetes")),
        }
    }
    Ok(objects)
}

/// The items of a list of Kubernetes, or the objects of a catalog.
fn list_of(object: &mut Map<String, Value>) -> Option<Vec<Value>> {
    let field = match object.contains_key("kind") || object.contains_key("items") {
        true => "items",
        false => "objects",
    };
    object.get(field).filter(|list| list.is_array())?;
    match object.remove(field) {
        Some(Value::Array(list)) => Some(list),
        _ => None,
    }
}

/// What is to be sent for these objects, in whatever order they come.
#[must_use]
pub fn plan(objects: Vec<Value>) -> Plan {
    let mut notes = Vec::new();
    let mut sorted: BTreeMap<Kind, BTreeMap<String, Object>> = BTreeMap::new();
    for object in objects {
        match Object::read(object) {
            Ok(object) => {
                let of_kind = sorted.entry(object.kind).or_default();
                if let Some(twice) = of_kind.insert(object.name.clone(), object) {
                    notes.push(format!(
                        "{twice}: there are two of that name, the last one counts"
                    ));
                }
            }
            Err(note) => notes.push(note),
        }
    }
    let mut take = |kind| sorted.remove(&kind).unwrap_or_default();
    let templates = take(Kind::TenantTemplate);
    let mut repos = take(Kind::GitRepo);
    let mut plan = Plan::default();
    for mut tenant in take(Kind::Tenant).into_values() {
        let repo = repos.remove(&tenant.name);
        plan.tenants
            .extend(tenant::planned(&mut tenant, &templates, repo, &mut notes));
    }
    for mut cluster in take(Kind::Cluster).into_values() {
        let repo = repos.remove(&cluster.name);
        plan.clusters
            .extend(cluster::planned(&mut cluster, repo, &mut notes));
    }
    for repo in repos.values() {
        notes.push(format!("{repo}: no tenant and no cluster has its name"));
    }
    plan.left_out = notes;
    plan
}

#[cfg(test)]
mod tests;
