//! Effective configuration of a cluster: its own values, else those of its tenant's template, with
//! the origin of each value.

use std::collections::BTreeMap;

use fairlead_api::{TenantId, resources::SiteSettings};
use fairlead_store::{
    View,
    model::{
        AccessTokenSettings, Cluster, ClusterTemplate, CreationPolicy, Credentials, DeletionPolicy,
        GitRepo, RepoKind, TemplateFile,
    },
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::error::RegistryError;

static EMPTY: BTreeMap<String, String> = BTreeMap::new();

/// The template of a tenant, for its clusters.
#[must_use]
pub fn template_of<'a>(view: &'a View, tenant: &TenantId) -> Option<&'a ClusterTemplate> {
    view.tenant(tenant)?.value.cluster_template.as_ref()
}

/// A cluster with the values that its tenant's template adds.
#[derive(Clone, Copy)]
pub struct Effective<'a> {
    cluster: &'a Cluster,
    template: Option<&'a ClusterTemplate>,
}

impl<'a> Effective<'a> {
    /// Combines a cluster with its template.
    pub fn of(cluster: &'a Cluster, template: Option<&'a ClusterTemplate>) -> Self {
        Effective { cluster, template }
    }

    /// Annotations of the template.
    pub(super) fn annotations(&self) -> &'a BTreeMap<String, String> {
        self.template.map_or(&EMPTY, |it| &it.annotations)
    }

    /// Facts of the template.
    pub(super) fn facts(&self) -> &'a BTreeMap<String, String> {
        self.template.map_or(&EMPTY, |it| &it.facts)
    }

    /// Repository of the cluster itself.
    pub fn own_repo(&self) -> Option<&'a GitRepo> {
        self.cluster.git_repo.as_deref()
    }

    fn repos(&self) -> [Option<&'a GitRepo>; 2] {
        [
            self.cluster.git_repo.as_deref(),
            self.template.and_then(|it| it.git_repo.as_ref()),
        ]
    }

    /// True if a repository is configured, even without a URL yet.
    pub fn has_repo(&self) -> bool {
        self.repos().iter().any(Option::is_some)
    }

    fn of_repo<T>(&self, pick: impl Fn(&'a GitRepo) -> Option<T>) -> Option<T> {
        self.repos().into_iter().flatten().find_map(pick)
    }

    /// URL of the repository.
    pub fn repo_url(&self) -> Option<&'a str> {
        self.of_repo(|repo| repo.url.as_deref())
    }

    /// Group or project of the repository.
    pub fn repo_path(&self) -> Option<&'a str> {
        self.of_repo(|repo| repo.path.as_deref())
    }

    /// Name of the repository within its group.
    pub fn repo_name(&self) -> Option<&'a str> {
        self.of_repo(|repo| repo.repo_name.as_deref())
    }

    /// Credentials for the API of the repository's server.
    pub fn api_secret_ref(&self) -> Option<&'a Credentials> {
        self.of_repo(|repo| repo.api_secret_ref.as_ref())
    }

    /// Declared files of the cluster, and those of the template with other paths.
    pub fn template_files(&self) -> BTreeMap<String, TemplateFile> {
        let files = self.repos().into_iter().rev().flatten();
        let files = files.flat_map(|repo| &repo.template_files);
        files
            .map(|(path, file)| (path.clone(), file.clone()))
            .collect()
    }

    /// Access token that the hub makes and renews.
    pub fn access_token(&self) -> Option<&'a AccessTokenSettings> {
        self.of_repo(|repo| repo.access_token.as_ref())
    }

    pub(super) fn host_keys(&self) -> Option<&'a str> {
        self.of_repo(|repo| repo.host_keys.as_deref())
    }

    /// Type of the repository that provides the URL.
    pub fn repo_kind(&self) -> Option<RepoKind> {
        let named = self.of_repo(|repo| repo.url.as_ref().map(|_| repo.kind));
        named.or_else(|| self.of_repo(|repo| Some(repo.kind)))
    }

    pub(super) fn tenant_revision(&self) -> Option<&'a str> {
        let own = self.cluster.tenant_git_repo_revision.as_deref();
        own.or_else(|| self.template?.tenant_git_repo_revision.as_deref())
    }

    pub(super) fn global_revision(&self) -> Option<&'a str> {
        let own = self.cluster.global_git_repo_revision.as_deref();
        own.or_else(|| self.template?.global_git_repo_revision.as_deref())
    }

    /// Handling of an existing repository.
    pub fn creation_policy(&self) -> Option<CreationPolicy> {
        let own = self.cluster.creation_policy;
        own.or_else(|| self.template?.creation_policy)
    }

    /// Handling of the repository when the cluster is deleted.
    pub fn deletion_policy(&self) -> Option<DeletionPolicy> {
        let own = self.cluster.deletion_policy;
        own.or_else(|| self.template?.deletion_policy)
    }

    /// True if the tenant's compile pipeline compiles the cluster.
    pub fn enable_compilation(&self) -> Option<bool> {
        let own = self.cluster.enable_compilation;
        own.or_else(|| self.template?.enable_compilation)
    }

    /// Network of the site.
    #[must_use]
    pub fn site(&self) -> SiteSettings {
        let of_template = self.template.and_then(|it| it.site.as_ref());
        SiteSettings::over(self.cluster.site.as_ref(), of_template)
    }

    fn explain_site(&self, all: &mut Map<String, Value>) {
        let (own, site) = (self.cluster.site.as_ref(), self.site());
        let own_proxy = own.and_then(|it| it.proxy.as_ref());
        let proxy = site.proxy.unwrap_or_default();
        let is_own = own_proxy.is_some_and(|it| it.url.is_some() || it.secret.is_some());
        one(all, "site.proxy.url", json!(proxy.url), is_own);
        one(all, "site.proxy.secret", json!(proxy.secret), is_own);
        let is_own = own_proxy.is_some_and(|it| it.no_proxy.is_some());
        one(all, "site.proxy.noProxy", json!(proxy.no_proxy), is_own);
        let is_own = own.is_some_and(|it| it.ca.is_some());
        one(all, "site.ca", json!(site.ca), is_own);
        let is_own = own.is_some_and(|it| it.hubs.is_some());
        one(all, "site.hubs", json!(site.hubs), is_own);
    }

    pub(super) fn delete_protection(&self) -> Option<bool> {
        let own = self.cluster.delete_protection;
        own.or_else(|| self.template?.delete_protection)
    }

    fn explain_contents(&self, all: &mut Map<String, Value>) {
        let repo = self.own_repo();
        let own = repo.is_some_and(|it| it.access_token.is_some());
        let token = json!(self.access_token());
        one(all, "gitRepo.accessToken", token, own);
        for (path, file) in self.template_files() {
            let own = repo.is_some_and(|it| it.template_files.contains_key(&path));
            let path = format!("gitRepo.templateFiles.{path}");
            one(all, &path, json!(file), own);
        }
        let own = self.cluster.enable_compilation.is_some();
        let compiles = json!(self.enable_compilation());
        one(all, "enableCompilation", compiles, own);
    }

    /// Each value as `{"value": .., "from": "cluster" | "template"}` by its path in the document.
    pub(super) fn explained(&self) -> Value {
        let mut all = Map::new();
        let cluster = self.cluster;
        let own = &cluster.annotations;
        let own = own.iter().map(|(name, text)| (name, json!(text)));
        explain(&mut all, "annotations", own, self.annotations());
        let own = cluster
            .facts
            .iter()
            .map(|(name, fact)| (name, fact.value.clone()));
        explain(&mut all, "facts", own, self.facts());
        let repo = self.own_repo();
        let own_url = repo.and_then(|it| it.url.as_ref());
        one(
            &mut all,
            "gitRepo.url",
            json!(self.repo_url()),
            own_url.is_some(),
        );
        let own_kind = own_url.is_some() || self.repo_url().is_none();
        let kind = self.repo_kind();
        one(
            &mut all,
            "gitRepo.type",
            json!(kind),
            own_kind && repo.is_some(),
        );
        let own = repo.is_some_and(|it| it.host_keys.is_some());
        one(&mut all, "gitRepo.hostKeys", json!(self.host_keys()), own);
        let own = repo.is_some_and(|it| it.path.is_some());
        one(&mut all, "gitRepo.path", json!(self.repo_path()), own);
        let own = repo.is_some_and(|it| it.repo_name.is_some());
        one(&mut all, "gitRepo.repoName", json!(self.repo_name()), own);
        let own = repo.is_some_and(|it| it.api_secret_ref.is_some());
        let secret = json!(self.api_secret_ref());
        one(&mut all, "gitRepo.apiSecretRef", secret, own);
        self.explain_contents(&mut all);
        let own = cluster.tenant_git_repo_revision.is_some();
        one(
            &mut all,
            "tenantGitRepoRevision",
            json!(self.tenant_revision()),
            own,
        );
        let own = cluster.global_git_repo_revision.is_some();
        one(
            &mut all,
            "globalGitRepoRevision",
            json!(self.global_revision()),
            own,
        );
        let own = cluster.creation_policy.is_some();
        one(
            &mut all,
            "creationPolicy",
            json!(self.creation_policy()),
            own,
        );
        let own = cluster.deletion_policy.is_some();
        one(
            &mut all,
            "deletionPolicy",
            json!(self.deletion_policy()),
            own,
        );
        let own = cluster.delete_protection.is_some();
        one(
            &mut all,
            "deleteProtection",
            json!(self.delete_protection()),
            own,
        );
        self.explain_site(&mut all);
        Value::Object(all)
    }
}

/// Effective values of a cluster, by the path of a field.
#[derive(ToSchema)]
#[schema(as = Effective)]
pub(crate) struct ExplainedCluster(
    #[expect(dead_code, reason = "only described: the response is written directly")]
    #[schema(inline)]
    BTreeMap<String, ExplainedValue>,
);

/// An effective value with its origin.
#[derive(Serialize, ToSchema)]
struct ExplainedValue {
    value: Value,
    #[schema(inline)]
    from: Origin,
}

/// Document that sets a value.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Origin {
    Cluster,
    Template,
}

fn one(all: &mut Map<String, Value>, path: &str, value: Value, own: bool) {
    if value.is_null() {
        return;
    }
    let from = if own {
        Origin::Cluster
    } else {
        Origin::Template
    };
    all.insert(path.to_owned(), json!(ExplainedValue { value, from }));
}

fn explain<'a>(
    all: &mut Map<String, Value>,
    field: &str,
    own: impl Iterator<Item = (&'a String, Value)>,
    template: &BTreeMap<String, String>,
) {
    for (name, text) in template {
        one(all, &format!("{field}.{name}"), json!(text), false);
    }
    for (name, value) in own {
        one(all, &format!("{field}.{name}"), value, true);
    }
}

/// Checks the deletion protection.
///
/// # Errors
/// `FL-4116`
pub fn unprotected(view: &View, cluster: &Cluster) -> Result<(), RegistryError> {
    let effective = Effective::of(cluster, template_of(view, &cluster.tenant));
    match effective.delete_protection() {
        Some(true) => Err(RegistryError::Protected(cluster.id.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
