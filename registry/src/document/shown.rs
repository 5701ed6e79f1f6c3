//! Serialisation of tenants and clusters directly from the stored records.

use std::{collections::BTreeMap, sync::Arc};

use fairlead_api::resources::{AgentInvitation, ClusterStatus, DetectedClone, TenantRepoDocument};
use fairlead_store::{
    Record,
    model::{
        AccessTokenSettings, Cluster, ClusterTemplate, Credentials, Fact, Facts, GitRepo, RepoKind,
        TemplateFile, Tenant,
    },
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer, ser::SerializeMap};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    document::{
        cluster::{entry, serialize_own},
        repo, repo_variables, tenant,
    },
    services::{RepoStatus, Services, ShownRepoState},
    template::Effective,
};

/// Cacheable part of a cluster's document: changes only with the cluster or its tenant.
struct CacheableFields<'a> {
    record: &'a Record<Cluster>,
    template: Option<&'a ClusterTemplate>,
    services: &'a Services,
}

/// Part that depends on the caller and the time.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallerFields<'a> {
    version: u64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stale_facts: &'a [&'a str],
    #[serde(rename = "installURL", skip_serializing_if = "Option::is_none")]
    install_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a ClusterStatus>,
    #[serde(flatten)]
    invitation: &'a AgentInvitation,
}

/// A serialised JSON object to which further fields are appended.
#[derive(Clone)]
pub(crate) struct CachedDocument(Arc<str>);

impl CachedDocument {
    /// Serialises the cacheable part.
    ///
    /// # Errors
    /// `FL-5101`
    pub(crate) fn of(
        record: &Record<Cluster>,
        template: Option<&ClusterTemplate>,
        services: &Services,
    ) -> Result<Self, serde_json::Error> {
        let lasting = CacheableFields {
            record,
            template,
            services,
        };
        let mut text = serde_json::to_string(&lasting)?;
        text.pop();
        Ok(CachedDocument(text.into()))
    }
}

pub(crate) struct ShownCluster<'a> {
    pub(crate) cached: CachedDocument,
    pub(crate) version: u64,
    /// Reported facts whose source has gone silent.
    pub(crate) stale: Vec<&'a str>,
    pub(crate) status: Option<&'a ClusterStatus>,
    /// For permitted callers, while the token is valid.
    pub(crate) install_url: Option<SecretString>,
    /// Invitation in the response to a creation.
    pub(crate) invitation: AgentInvitation,
}

impl ShownCluster<'_> {
    /// Appends the document as JSON.
    ///
    /// # Errors
    /// `FL-5101`
    pub(crate) fn write(&self, to: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        to.extend_from_slice(self.cached.0.as_bytes());
        let rest = to.len();
        let passing = CallerFields {
            version: self.version,
            stale_facts: &self.stale,
            install_url: self.install_url.as_ref().map(ExposeSecret::expose_secret),
            status: self.status,
            invitation: &self.invitation,
        };
        serde_json::to_writer(&mut *to, &passing)?;
        // Replaces the opening brace: two objects become one.
        if let Some(brace) = to.get_mut(rest) {
            *brace = b',';
        }
        Ok(())
    }
}

impl Serialize for CacheableFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cluster = &self.record.value;
        let effective = Effective::of(cluster, self.template);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &cluster.id)?;
        map.serialize_entry("tenant", &cluster.tenant)?;
        let name = cluster.display_name.as_deref();
        map.serialize_entry("displayName", name.unwrap_or(cluster.id.as_str()))?;
        map.serialize_entry(
            "annotations",
            &MergedTexts(&cluster.annotations, effective.annotations()),
        )?;
        map.serialize_entry("facts", &MergedFacts(&cluster.facts, effective.facts()))?;
        if !cluster.dynamic_facts.is_empty() {
            map.serialize_entry("dynamicFacts", &FactValues(&cluster.dynamic_facts))?;
        }
        let repositories = &self.services.repositories;
        let state = repositories.of_cluster(cluster, self.template);
        map.serialize_entry("gitRepo", &ShownRepo::of(&effective, state))?;
        entry(
            &mut map,
            "tenantGitRepoRevision",
            effective.tenant_revision(),
        )?;
        entry(
            &mut map,
            "globalGitRepoRevision",
            effective.global_revision(),
        )?;
        serialize_own(cluster, &mut map)?;
        entry(&mut map, "creationPolicy", effective.creation_policy())?;
        entry(&mut map, "deletionPolicy", effective.deletion_policy())?;
        entry(&mut map, "deleteProtection", effective.delete_protection())?;
        entry(
            &mut map,
            "enableCompilation",
            effective.enable_compilation(),
        )?;
        map.serialize_entry("created", &time(cluster.created))?;
        entry(&mut map, "uid", cluster.binding.uid.as_ref())?;
        map.serialize_entry("enrolled", &cluster.binding.agent_key.is_some())?;
        let clone = cluster.binding.clone.as_ref().map(|clone| DetectedClone {
            last_seen: clone.seen,
            from: clone.from,
            uid: clone.uid.clone(),
        });
        entry(&mut map, "clone", clone)?;
        entry(&mut map, "vault", self.services.vault.of_cluster(cluster))?;
        map.end()
    }
}

pub(crate) struct ShownTenant<'a>(pub(crate) &'a Record<Tenant>, pub(crate) &'a dyn RepoStatus);

impl Serialize for ShownTenant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tenant = &self.0.value;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &tenant.id)?;
        let name = tenant.display_name.as_deref();
        map.serialize_entry("displayName", name.unwrap_or(tenant.id.as_str()))?;
        map.serialize_entry("annotations", &tenant.annotations)?;
        let repo = tenant::repo_document(tenant).unwrap_or_default();
        let state = self.1.of_tenant(tenant);
        map.serialize_entry("gitRepo", &WithState { repo, state })?;
        entry(
            &mut map,
            "globalGitRepoURL",
            tenant.global_git_repo_url.as_ref(),
        )?;
        entry(
            &mut map,
            "globalGitRepoRevision",
            tenant.global_git_repo_revision.as_ref(),
        )?;
        entry(&mut map, "tenantRef", tenant.parent.as_ref())?;
        entry(
            &mut map,
            "clusterTemplate",
            tenant::template_document(tenant),
        )?;
        entry(&mut map, "quotas", tenant.quotas)?;
        entry(
            &mut map,
            "compilePipeline",
            tenant::pipeline_document(tenant),
        )?;
        map.serialize_entry("created", &time(tenant.created))?;
        map.serialize_entry("version", &self.0.version)?;
        map.end()
    }
}

fn time(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}

/// Own entries, then those of the template that are missing.
struct MergedTexts<'a>(&'a BTreeMap<String, String>, &'a BTreeMap<String, String>);

impl Serialize for MergedTexts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let more = self
            .1
            .iter()
            .filter(|(name, _)| !self.0.contains_key(*name));
        serializer.collect_map(self.0.iter().chain(more))
    }
}

struct MergedFacts<'a>(&'a Facts, &'a BTreeMap<String, String>);

impl Serialize for MergedFacts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, Fact { value, .. }) in self.0 {
            map.serialize_entry(name, value)?;
        }
        for (name, text) in self.1 {
            if !self.0.contains_key(name) {
                map.serialize_entry(name, text)?;
            }
        }
        map.end()
    }
}

struct FactValues<'a>(&'a Facts);

impl Serialize for FactValues<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fact)| (name, &fact.value)))
    }
}

#[derive(Serialize)]
struct WithState<'a> {
    #[serde(flatten)]
    repo: TenantRepoDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<ShownRepoState<'a>>,
}

/// Always an object: Steward crashes without one.
struct ShownRepo<'a> {
    own: Option<&'a GitRepo>,
    url: Option<&'a str>,
    host_keys: Option<&'a str>,
    kind: Option<RepoKind>,
    path: Option<&'a str>,
    name: Option<&'a str>,
    api_secret: Option<&'a Credentials>,
    template_files: BTreeMap<String, TemplateFile>,
    access_token: Option<&'a AccessTokenSettings>,
    state: Option<ShownRepoState<'a>>,
}

impl<'a> ShownRepo<'a> {
    fn of(effective: &Effective<'a>, state: Option<ShownRepoState<'a>>) -> Self {
        ShownRepo {
            own: effective.own_repo(),
            url: effective.repo_url(),
            host_keys: effective.host_keys(),
            kind: effective.repo_kind(),
            path: effective.repo_path(),
            name: effective.repo_name(),
            api_secret: effective.api_secret_ref(),
            template_files: effective.template_files(),
            access_token: effective.access_token(),
            state,
        }
    }
}

impl Serialize for ShownRepo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "url", self.url)?;
        entry(&mut map, "type", self.kind)?;
        entry(&mut map, "hostKeys", self.host_keys)?;
        entry(&mut map, "path", self.path)?;
        entry(&mut map, "repoName", self.name)?;
        entry(&mut map, "apiSecretRef", self.api_secret)?;
        entry(&mut map, "accessToken", self.access_token)?;
        if let Some(own) = self.own {
            entry(&mut map, "deployKey", repo::deploy_key(own))?;
            let others = repo::others(own);
            if !others.is_empty() {
                map.serialize_entry("deployKeys", &others)?;
            }
            if !own.ci_variables.is_empty() {
                let shown = repo_variables::shown(&own.ci_variables);
                map.serialize_entry("ciVariables", &shown)?;
            }
        }
        if !self.template_files.is_empty() {
            map.serialize_entry("templateFiles", &self.template_files)?;
        }
        entry(&mut map, "state", self.state.as_ref())?;
        map.end()
    }
}
