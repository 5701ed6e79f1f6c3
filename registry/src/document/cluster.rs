//! Cluster documents as received.

use std::collections::BTreeMap;

use fairlead_api::resources::SiteSettings;
use fairlead_routes::{InvalidValue, invalid};
use fairlead_store::model::{Cluster, CompileMeta, Fact, FactSource, Facts};
use serde::{Serialize, ser::SerializeMap};
use serde_json::{Map, Value, json};

use crate::{
    document::{
        compile,
        fields::{Fields, are_entries, reject_credentials},
        merge,
        policy::Policies,
        repo::{self, Repo},
        site,
    },
    names::display_name,
};

/// Fields allowed in a PATCH.
const PATCH_FIELDS: [&str; 16] = [
    "annotations",
    "displayName",
    "facts",
    "dynamicFacts",
    "compileMeta",
    "gitRepo",
    "tenantGitRepoRevision",
    "globalGitRepoRevision",
    "installURL",
    "kubeApi",
    "creationPolicy",
    "deletionPolicy",
    "deleteProtection",
    "deliverCatalog",
    "enableCompilation",
    "site",
];
/// Field names that PUT preserves: a client of Lieutenant's API does not know them.
pub(crate) const OWN_FIELDS: [&str; 7] = [
    "kubeApi",
    "creationPolicy",
    "deletionPolicy",
    "deleteProtection",
    "deliverCatalog",
    "enableCompilation",
    "site",
];

/// Fields that a cluster's own agent may write.
const AGENT_FIELDS: [&str; 3] = ["facts", "dynamicFacts", "gitRepo"];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClusterSpec {
    pub(crate) display_name: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) dynamic_facts: BTreeMap<String, Value>,
    pub(crate) git_repo: Option<Repo>,
    pub(crate) tenant_revision: Option<String>,
    pub(crate) global_revision: Option<String>,
    pub(crate) compile_meta: Option<CompileMeta>,
    pub(crate) policies: Policies,
    pub(crate) deliver_catalog: Option<bool>,
    pub(crate) enable_compilation: Option<bool>,
    pub(crate) site: Option<SiteSettings>,
}

impl ClusterSpec {
    /// Parses a document.
    ///
    /// # Errors
    /// `FL-4109` with the field.
    pub(crate) fn read(given: &mut Fields) -> Result<Self, InvalidValue> {
        let compile_meta = given.object("compileMeta")?;
        let compile_meta = compile_meta.map(|it| Value::Object(it.into_rest()));
        Ok(ClusterSpec {
            display_name: checked_name(given.text("displayName")?)?,
            annotations: given.texts("annotations")?.unwrap_or_default(),
            facts: given.texts("facts")?.unwrap_or_default(),
            dynamic_facts: given.values("dynamicFacts")?.unwrap_or_default(),
            git_repo: given.object("gitRepo")?.map(Repo::read).transpose()?,
            tenant_revision: given.text("tenantGitRepoRevision")?,
            global_revision: given.text("globalGitRepoRevision")?,
            compile_meta: compile_meta.map(compile::read).transpose()?,
            policies: Policies::read(given)?,
            deliver_catalog: given.boolean("deliverCatalog")?,
            enable_compilation: given.boolean("enableCompilation")?,
            site: site::of(given, "site")?,
        })
    }

    /// Rejects secrets in URLs. Only received values are checked: stored ones remain readable and
    /// editable.
    ///
    /// # Errors
    /// `FL-4109`
    pub(crate) fn reject_credentials(&self) -> Result<(), InvalidValue> {
        let url = self.git_repo.as_ref().and_then(Repo::url);
        reject_credentials("gitRepo.url", url)
    }

    /// Validates a PATCH on its own, independent of the cluster.
    ///
    /// # Errors
    /// `FL-4109`
    pub(crate) fn judge(patch: &Fields) -> Result<(), InvalidValue> {
        if Self::is_plain(patch.rest()) {
            return Ok(());
        }
        let mut alone = Map::new();
        merge::cluster(&mut alone, patch.clone().into_rest());
        Self::read(&mut Fields::of(Value::Object(alone))?)?.reject_credentials()
    }

    /// Fast path: true if a PATCH consists of valid fields that agents send frequently. False if a
    /// full check is needed.
    fn is_plain(patch: &Map<String, Value>) -> bool {
        patch
            .iter()
            .all(|(name, value)| match (name.as_str(), value) {
                ("facts", Value::Object(values)) => {
                    are_entries(values) && values.values().all(|it| it.is_string() || it.is_null())
                }
                ("dynamicFacts", Value::Object(values)) => are_entries(values),
                ("gitRepo", Value::Object(values)) => repo::is_good_key(values),
                _ => false,
            })
    }

    /// Rejects unknown fields of a PATCH.
    ///
    /// # Errors
    /// `FL-4109`
    pub(crate) fn check_patch(patch: &Fields) -> Result<(), InvalidValue> {
        if let Some(name) = patch.names().find(|name| !PATCH_FIELDS.contains(name)) {
            let name: String = name.chars().take(100).collect();
            return Err(invalid(format_args!("unknown field \"{name}\"")));
        }
        let fields = patch.rest();
        repo::check_fields("gitRepo", fields.get("gitRepo"), &[])?;
        compile::check_fields(fields.get("compileMeta"))
    }

    /// True if a PATCH contains only fields of the cluster's own agent.
    pub(crate) fn is_of_agent(patch: &Map<String, Value>) -> bool {
        let only_key = |repo: &Value| {
            let fields = repo.as_object();
            // `type` is ignored in a PATCH.
            fields.is_some_and(|it| it.keys().all(|name| name == "deployKey" || name == "type"))
        };
        patch.iter().all(|(name, value)| {
            AGENT_FIELDS.contains(&name.as_str()) && (name != "gitRepo" || only_key(value))
        })
    }

    /// Fast path: true if a PATCH repeats current values. False if a full comparison is needed.
    pub(crate) fn repeats(patch: &Map<String, Value>, cluster: &Cluster) -> bool {
        patch
            .iter()
            .all(|(name, value)| match (name.as_str(), value) {
                ("facts", Value::Object(values)) => same(values, &cluster.facts),
                ("dynamicFacts", Value::Object(values)) => same(values, &cluster.dynamic_facts),
                ("gitRepo", Value::Object(values)) => {
                    let known = cluster.git_repo.as_ref();
                    known.is_some_and(|known| repo::has_key(known, values))
                }
                _ => false,
            })
    }

    /// The document from which [`ClusterSpec::read`] restores the stored values.
    pub(crate) fn document(cluster: &Cluster) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                fields.insert(name.to_owned(), value);
            }
        };
        put("displayName", json!(cluster.display_name));
        put("annotations", json!(cluster.annotations));
        put("facts", values(&cluster.facts));
        put("dynamicFacts", values(&cluster.dynamic_facts));
        let repo = cluster.git_repo.as_deref().map(repo::stored);
        put("gitRepo", json!(repo));
        put(
            "tenantGitRepoRevision",
            json!(cluster.tenant_git_repo_revision),
        );
        put(
            "globalGitRepoRevision",
            json!(cluster.global_git_repo_revision),
        );
        put("compileMeta", json!(cluster.compile_meta));
        put("kubeApi", json!(cluster.kube_api));
        put("creationPolicy", json!(cluster.creation_policy));
        put("deletionPolicy", json!(cluster.deletion_policy));
        put("deleteProtection", json!(cluster.delete_protection));
        put("deliverCatalog", json!(cluster.deliver_catalog));
        put("enableCompilation", json!(cluster.enable_compilation));
        put("site", json!(cluster.site));
        fields
    }

    /// Fields that PUT preserves: reports of the agent and Commodore, and our own fields, because a
    /// client of Lieutenant's API cannot mean to remove them.
    pub(crate) fn over(mut self, before: &Cluster, named: &[&str]) -> Self {
        let known = before.dynamic_facts.iter();
        self.dynamic_facts = known
            .map(|(name, fact)| (name.clone(), fact.value.clone()))
            .collect();
        self.compile_meta = before.compile_meta.as_deref().cloned();
        if let (Some(repo), Some(before)) = (&mut self.git_repo, &before.git_repo) {
            repo.over(before);
        }
        if !named.contains(&"kubeApi") {
            self.policies.kube_api.clone_from(&before.kube_api);
        }
        if !named.contains(&"creationPolicy") {
            self.policies.creation = before.creation_policy;
        }
        if !named.contains(&"deletionPolicy") {
            self.policies.deletion = before.deletion_policy;
        }
        if !named.contains(&"deleteProtection") {
            self.policies.delete_protection = before.delete_protection;
        }
        if !named.contains(&"deliverCatalog") {
            self.deliver_catalog = before.deliver_catalog;
        }
        if !named.contains(&"enableCompilation") {
            self.enable_compilation = before.enable_compilation;
        }
        if !named.contains(&"site") {
            self.site.clone_from(&before.site);
        }
        self
    }

    /// Writes all fields into a cluster. An unchanged fact keeps its time and source.
    pub(crate) fn write(self, cluster: &mut Cluster, source: FactSource, now: i64) {
        cluster.display_name = self.display_name;
        cluster.annotations = self.annotations;
        let facts = self
            .facts
            .into_iter()
            .map(|(name, text)| (name, text.into()));
        cluster.facts = renewed(&cluster.facts, facts, source, now);
        let facts = self.dynamic_facts.into_iter();
        cluster.dynamic_facts = renewed(&cluster.dynamic_facts, facts, source, now);
        let before = cluster.git_repo.take();
        let repo = self.git_repo.map(|repo| repo.kept(before.as_deref()));
        cluster.git_repo = repo.map(Box::new);
        cluster.tenant_git_repo_revision = self.tenant_revision;
        cluster.global_git_repo_revision = self.global_revision;
        cluster.compile_meta = self.compile_meta.map(Box::new);
        cluster.kube_api = self.policies.kube_api;
        cluster.creation_policy = self.policies.creation;
        cluster.deletion_policy = self.policies.deletion;
        cluster.delete_protection = self.policies.delete_protection;
        cluster.deliver_catalog = self.deliver_catalog;
        cluster.enable_compilation = self.enable_compilation;
        cluster.site = self.site;
    }
}

/// Writes the fields without a default in the tenant's template.
pub(super) fn serialize_own<M: SerializeMap>(
    cluster: &Cluster,
    map: &mut M,
) -> Result<(), M::Error> {
    match &cluster.compile_meta {
        Some(meta) => map.serialize_entry("compileMeta", meta)?,
        None => map.serialize_entry("compileMeta", &CompileMeta::default())?,
    }
    entry(map, "deliverCatalog", cluster.deliver_catalog)?;
    entry(map, "kubeApi", cluster.kube_api.as_ref())?;
    entry(map, "site", cluster.site.as_ref())
}

/// Writes a field with a value.
pub(super) fn entry<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &str,
    value: Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, &value),
        None => Ok(()),
    }
}

/// Validates an optional display name.
///
/// # Errors
/// `FL-4109`
pub(super) fn checked_name(name: Option<String>) -> Result<Option<String>, InvalidValue> {
    name.map(|name| display_name(Some(name), "")).transpose()
}

fn same(values: &Map<String, Value>, known: &Facts) -> bool {
    values.iter().all(|(name, value)| match known.get(name) {
        Some(fact) => fact.value == *value,
        None => value.is_null(),
    })
}

fn values(facts: &Facts) -> Value {
    let values = facts
        .iter()
        .map(|(name, fact)| (name.clone(), fact.value.clone()));
    Value::Object(values.collect())
}

fn renewed(
    before: &Facts,
    after: impl Iterator<Item = (String, Value)>,
    source: FactSource,
    now: i64,
) -> Facts {
    let renew = |(name, value): (String, Value)| {
        let fact = match before.get(&name) {
            Some(same) if same.value == value => same.clone(),
            _ => Fact {
                value,
                source,
                received: now,
                observed: now,
            },
        };
        (name, fact)
    };
    after.map(renew).collect()
}

#[cfg(test)]
mod tests;
