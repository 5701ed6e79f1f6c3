//! Import from Project Syn's Lieutenant: converts its Kubernetes objects (`syn.tools/v1alpha1`:
//! Tenant, TenantTemplate, Cluster, GitRepo) to documents of this hub's API.
//!
//! Pure: the caller reads the objects and sends the documents. Nothing is dropped silently: each
//! unsupported field is reported with its object. Secrets are never imported.

mod cluster;
mod contents;
mod object;
mod repo;
mod tenant;

use std::collections::BTreeMap;

use fairlead_api::{ClusterId, Code, Failure, TenantId};
use serde_json::{Map, Value};

use object::{LieutenantObject, ObjectKind};

/// Documents in sending order: a tenant precedes its clusters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportPlan {
    /// Tenants, sent first.
    pub tenants: Vec<PlannedTenant>,
    /// Clusters, sent after all tenants.
    pub clusters: Vec<PlannedCluster>,
    /// Reports of skipped objects and fields with the reason, one line each.
    pub left_out: Vec<String>,
}

/// A document for `PUT /tenants/{id}`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTenant {
    /// Id of the tenant.
    pub id: TenantId,
    /// Body of the request.
    pub document: Value,
}

/// A document for `PUT /clusters/{id}`, with the parts that have routes of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCluster {
    /// Id of the cluster.
    pub id: ClusterId,
    /// Body of the request.
    pub document: Value,
    /// Body for `POST /v1/clusters/{id}/facts/imported`, as `facts`; an object.
    pub dynamic_facts: Option<Value>,
    /// Body for `POST /clusters/{id}/compileMeta`.
    pub compile_meta: Option<Value>,
    /// True if the bootstrap token was still valid. If not, the import leaves no new token open.
    pub awaits_agent: bool,
}

/// Reads Kubernetes objects from YAML or JSON: one object, a stream, a list, or a catalog of this
/// hub.
///
/// # Errors
/// `FL-4109` if the text is neither.
pub fn read(text: &str) -> Result<Vec<Value>, Failure> {
    let invalid = |error: &dyn std::fmt::Display| Failure::because(Code::Invalid, error);
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| invalid(&error))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            // An empty document of a stream.
            Value::Null => {}
            Value::Object(mut object) => match list_of(&mut object) {
                Some(items) => objects.extend(items),
                None => objects.push(object.into()),
            },
            _ => return Err(invalid(&"not a Kubernetes object")),
        }
    }
    Ok(objects)
}

/// The items of a Kubernetes list, or the objects of a catalog.
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

/// Plans the documents for these objects, given in any order.
#[must_use]
pub fn plan(objects: Vec<Value>) -> ImportPlan {
    let mut notes = Vec::new();
    let mut sorted: BTreeMap<ObjectKind, BTreeMap<String, LieutenantObject>> = BTreeMap::new();
    for object in objects {
        match LieutenantObject::read(object) {
            Ok(object) => {
                let of_kind = sorted.entry(object.kind).or_default();
                if let Some(replaced) = of_kind.insert(object.name.clone(), object) {
                    notes.push(format!(
                        "{replaced}: duplicate name, the last one is imported"
                    ));
                }
            }
            Err(note) => notes.push(note),
        }
    }
    let mut take = |kind| sorted.remove(&kind).unwrap_or_default();
    let templates = take(ObjectKind::TenantTemplate);
    let mut repos = take(ObjectKind::GitRepo);
    let mut plan = ImportPlan::default();
    for mut tenant in take(ObjectKind::Tenant).into_values() {
        let repo = repos.remove(&tenant.name);
        plan.tenants
            .extend(tenant::planned(&mut tenant, &templates, repo, &mut notes));
    }
    for mut cluster in take(ObjectKind::Cluster).into_values() {
        let repo = repos.remove(&cluster.name);
        plan.clusters
            .extend(cluster::planned(&mut cluster, repo, &mut notes));
    }
    for repo in repos.values() {
        notes.push(format!("{repo}: no tenant or cluster has this name"));
    }
    plan.left_out = notes;
    plan
}

#[cfg(test)]
mod tests;
