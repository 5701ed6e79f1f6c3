//! Tenant documents as received.

use std::collections::BTreeMap;

use fairlead_api::{
    Code, TenantId,
    resources::{CompilePipelineDocument, TemplateDocument, TenantRepoDocument},
};
use fairlead_routes::{InvalidValue, invalid};
use fairlead_store::model::{
    AgentSettings, ClusterTemplate, CompilePipeline, Tenant, TenantQuotas,
};
use serde_json::{Map, Value, json};

use crate::{
    agent_settings,
    document::{
        cluster::checked_name,
        fields::{Fields, reject_credentials},
        pipeline,
        policy::Policies,
        repo::{self, Repo},
        site,
    },
};

/// Fields allowed in a PATCH.
const PATCH_FIELDS: [&str; 9] = [
    "annotations",
    "displayName",
    "gitRepo",
    "globalGitRepoURL",
    "globalGitRepoRevision",
    "tenantRef",
    "clusterTemplate",
    "quotas",
    "compilePipeline",
];

/// Presence of our own fields in a PUT.
pub(crate) struct OwnFields {
    pub(crate) parent: bool,
    pub(crate) template: bool,
    pub(crate) quotas: bool,
    pub(crate) pipeline: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TenantSpec {
    pub(crate) parent: Option<TenantId>,
    display_name: Option<String>,
    annotations: BTreeMap<String, String>,
    git_repo: Option<Repo>,
    revision: Option<String>,
    global_url: Option<String>,
    global_revision: Option<String>,
    template: Option<ClusterTemplate>,
    pub(crate) quotas: Option<TenantQuotas>,
    pipeline: Option<CompilePipeline>,
}

impl TenantSpec {
    /// Parses a document.
    ///
    /// # Errors
    /// `FL-4109` with the field.
    pub(crate) fn read(given: &mut Fields) -> Result<Self, InvalidValue> {
        let parent = match given.text("tenantRef")? {
            None => None,
            Some(parent) => Some(
                TenantId::from_name(&parent)
                    .map_err(|error| invalid(format_args!("tenantRef: {error}")))?,
            ),
        };
        let mut repo = given.object("gitRepo")?;
        let revision = match &mut repo {
            Some(repo) => repo.text("revision")?,
            None => None,
        };
        Ok(TenantSpec {
            parent,
            display_name: checked_name(given.text("displayName")?)?,
            annotations: given.texts("annotations")?.unwrap_or_default(),
            git_repo: repo.map(Repo::read).transpose()?,
            revision,
            global_url: given.text("globalGitRepoURL")?,
            global_revision: given.text("globalGitRepoRevision")?,
            template: given.object("clusterTemplate")?.map(template).transpose()?,
            pipeline: (given.object("compilePipeline")?)
                .map(pipeline::read)
                .transpose()?,
            quotas: given
                .object("quotas")?
                .map(quotas)
                .transpose()?
                .filter(|quotas| !quotas.is_empty()),
        })
    }

    /// Lieutenant requires a repository; here an unmanaged one may omit its URL.
    ///
    /// # Errors
    /// `FL-4109`
    pub(crate) fn needs_repo(&self) -> Result<(), InvalidValue> {
        match &self.git_repo {
            Some(repo) if repo.url().is_some() || repo.is_unmanaged() => Ok(()),
            _ => Err(invalid("gitRepo.url is required")),
        }
    }

    /// Like [`super::ClusterSpec::reject_credentials`].
    ///
    /// # Errors
    /// `FL-4109`
    pub(crate) fn reject_credentials(&self) -> Result<(), InvalidValue> {
        let url = self.git_repo.as_ref().and_then(Repo::url);
        reject_credentials("gitRepo.url", url)?;
        reject_credentials("globalGitRepoURL", self.global_url.as_deref())?;
        let repo = self.template.as_ref().and_then(|it| it.git_repo.as_ref());
        let url = repo.and_then(|repo| repo.url.as_deref());
        reject_credentials("clusterTemplate.gitRepo.url", url)
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
        repo::check_fields("gitRepo", patch.rest().get("gitRepo"), &["revision"])
    }

    /// The document from which [`TenantSpec::read`] restores the stored values.
    pub(crate) fn document(tenant: &Tenant) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                fields.insert(name.to_owned(), value);
            }
        };
        put("tenantRef", json!(tenant.parent));
        put("displayName", json!(tenant.display_name));
        put("annotations", json!(tenant.annotations));
        put("gitRepo", stored_repo(tenant));
        put("globalGitRepoURL", json!(tenant.global_git_repo_url));
        put(
            "globalGitRepoRevision",
            json!(tenant.global_git_repo_revision),
        );
        put("clusterTemplate", json!(template_document(tenant)));
        put("quotas", json!(tenant.quotas));
        put("compilePipeline", json!(tenant.compile_pipeline));
        fields
    }

    /// PUT preserves our own fields, which a client of Lieutenant's API does not know.
    pub(crate) fn over(mut self, before: &Tenant, named: &OwnFields) -> Self {
        if let (Some(repo), Some(before)) = (&mut self.git_repo, &before.git_repo) {
            repo.over(before);
        }
        if !named.parent {
            self.parent.clone_from(&before.parent);
        }
        if !named.template {
            self.template.clone_from(&before.cluster_template);
        }
        if !named.pipeline {
            self.pipeline.clone_from(&before.compile_pipeline);
        }
        if !named.quotas {
            self.quotas = before.quotas;
        }
        self
    }

    pub(crate) fn write(self, tenant: &mut Tenant) {
        tenant.parent = self.parent;
        tenant.display_name = self.display_name;
        tenant.annotations = self.annotations;
        let before = tenant.git_repo.take();
        let repo = self.git_repo.map(|repo| repo.kept(before.as_deref()));
        tenant.git_repo = repo.map(Box::new);
        tenant.revision = self.revision;
        tenant.global_git_repo_url = self.global_url;
        tenant.global_git_repo_revision = self.global_revision;
        tenant.cluster_template = self.template;
        tenant.quotas = self.quotas;
        tenant.compile_pipeline = self.pipeline;
    }
}

/// Like [`repo_document`], with sealed values.
fn stored_repo(tenant: &Tenant) -> Value {
    let mut stored = json!(repo_document(tenant));
    if let (Some(fields), Some(repo)) = (stored.as_object_mut(), &tenant.git_repo) {
        let sealed = repo::stored(repo).get("ciVariables").cloned();
        fields.extend(sealed.map(|it| ("ciVariables".to_owned(), it)));
    }
    stored
}

/// Lieutenant includes the revision in a tenant's repository.
pub(super) fn repo_document(tenant: &Tenant) -> Option<TenantRepoDocument> {
    if tenant.git_repo.is_none() && tenant.revision.is_none() {
        return None;
    }
    let repo = tenant.git_repo.as_deref().map(repo::document);
    Some(TenantRepoDocument {
        repo: repo.unwrap_or_default(),
        revision: tenant.revision.clone(),
    })
}

pub(super) fn pipeline_document(tenant: &Tenant) -> Option<CompilePipelineDocument> {
    pipeline::document(tenant)
}

pub(super) fn template_document(tenant: &Tenant) -> Option<TemplateDocument> {
    let template = tenant.cluster_template.clone()?;
    Some(TemplateDocument {
        annotations: template.annotations,
        facts: template.facts,
        git_repo: template.git_repo.as_ref().map(repo::document),
        tenant_git_repo_revision: template.tenant_git_repo_revision,
        global_git_repo_revision: template.global_git_repo_revision,
        creation_policy: template.creation_policy,
        deletion_policy: template.deletion_policy,
        delete_protection: template.delete_protection,
        enable_compilation: template.enable_compilation,
        site: template.site,
        agent: template.agent,
    })
}

fn template(mut given: Fields) -> Result<ClusterTemplate, InvalidValue> {
    let policies = Policies::read(&mut given)?;
    repo::check_fields("clusterTemplate.gitRepo", given.rest().get("gitRepo"), &[])?;
    if policies.kube_api.is_some() {
        return Err(invalid("clusterTemplate.kubeApi: set it per cluster"));
    }
    let repo = given.object("gitRepo")?.map(Repo::read).transpose()?;
    if repo.as_ref().is_some_and(Repo::has_variables) {
        let cause = "clusterTemplate.gitRepo.ciVariables: set them per cluster";
        return Err(InvalidValue::with_code(Code::BadCiVariable, cause));
    }
    let template = ClusterTemplate {
        annotations: given.texts("annotations")?.unwrap_or_default(),
        facts: given.texts("facts")?.unwrap_or_default(),
        git_repo: repo.map(|repo| repo.kept(None)),
        tenant_git_repo_revision: given.text("tenantGitRepoRevision")?,
        global_git_repo_revision: given.text("globalGitRepoRevision")?,
        creation_policy: policies.creation,
        deletion_policy: policies.deletion,
        delete_protection: policies.delete_protection,
        enable_compilation: given.boolean("enableCompilation")?,
        site: site::of(&mut given, "site")?,
        agent: match given.object("agent")? {
            Some(settings) => agent(settings)?,
            None => AgentSettings::default(),
        },
    };
    given.reject_rest()?;
    Ok(template)
}

/// Quotas; an object without limits is none.
fn quotas(given: Fields) -> Result<TenantQuotas, InvalidValue> {
    serde_json::from_value(given.into_rest().into())
        .map_err(|error| invalid(format_args!("quotas: {error}")))
}

fn agent(given: Fields) -> Result<AgentSettings, InvalidValue> {
    let settings = serde_json::from_value(given.into_rest().into())
        .map_err(|error| invalid(format_args!("clusterTemplate.agent: {error}")))?;
    agent_settings::check(&settings)?;
    Ok(settings)
}
