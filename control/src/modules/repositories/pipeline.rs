//! Compile pipeline of a tenant: files and CI variables of its repository, with which its CI
//! compiles the catalogs of the clusters. Source: Lieutenant's operator, whose names these are.

use std::collections::BTreeMap;

use fairlead_api::{ClusterId, resources::ValueSource};
use fairlead_registry::{Effective, template_of};
use fairlead_repositories::{
    DesiredRepo, DesiredVariable, RepoOwner, VariableSource, access_token_name,
};
use fairlead_store::{
    View,
    model::{Cluster, CompilePipeline, Tenant},
};

use super::tenant_files::declared;

/// Address of this hub's API, which is Lieutenant's.
const API_URL: &str = "COMMODORE_API_URL";
/// Token for it.
const API_TOKEN: &str = "COMMODORE_API_TOKEN";
/// Ids of the clusters to compile, separated by spaces.
const CLUSTERS: &str = "CLUSTERS";
/// Start of the name of a variable with the access token of a cluster's repository.
const ACCESS_TOKEN: &str = "ACCESS_TOKEN_";

/// The pipeline of a tenant, if it is enabled.
pub(super) fn of(tenant: &Tenant) -> Option<&CompilePipeline> {
    let pipeline = tenant.compile_pipeline.as_ref();
    pipeline.filter(|it| it.enabled)
}

/// Adds the pipeline to the repository of its tenant, once a cluster has it. Files and variables
/// that people declare win.
pub(super) fn add(desired: &mut DesiredRepo, view: &View, tenant: &Tenant, api_url: &str) {
    let Some(pipeline) = of(tenant) else {
        return;
    };
    let records: Vec<_> = view
        .clusters_of(&tenant.id)
        .filter(|record| {
            let template = template_of(view, &record.value.tenant);
            Effective::of(&record.value, template).enable_compilation() == Some(true)
        })
        .collect();
    let clusters = records.iter().map(|record| record.value.id.clone());
    let clusters: Vec<ClusterId> = clusters.collect();
    if clusters.is_empty() {
        return;
    }
    for (path, file) in declared(&pipeline.pipeline_files) {
        let is_declared = tenant
            .git_repo
            .as_ref()
            .is_some_and(|repo| repo.template_files.contains_key(&path));
        if !is_declared {
            desired.files.insert(path, file);
        }
    }
    for (name, variable) in variables(pipeline, &clusters, api_url) {
        desired.ci_variables.entry(name).or_insert(variable);
    }
    for record in records {
        if let Some((name, variable)) = access_token(&record.value) {
            desired.ci_variables.entry(name).or_insert(variable);
        }
    }
    desired.compiled_clusters = clusters.into_iter().collect();
}

fn variables(
    pipeline: &CompilePipeline,
    clusters: &[ClusterId],
    api_url: &str,
) -> BTreeMap<String, DesiredVariable> {
    let names: Vec<&str> = clusters.iter().map(ClusterId::as_str).collect();
    let mut variables: BTreeMap<_, _> = [
        (API_URL.to_owned(), text(api_url.to_owned())),
        (CLUSTERS.to_owned(), text(names.join(" "))),
    ]
    .into();
    if let Some(token) = &pipeline.api_token {
        variables.insert(API_TOKEN.to_owned(), secret(token.clone()));
    }
    variables
}

/// Variable with the access token of a cluster's repository, once the hub has made it.
fn access_token(cluster: &Cluster) -> Option<(String, DesiredVariable)> {
    let id = cluster.repo_state.as_ref()?.access_token_id.clone()?;
    let name = access_token_name(&RepoOwner::Cluster(cluster.id.clone()));
    let variable = DesiredVariable {
        version: Some(id),
        ..secret(ValueSource { name, key: None })
    };
    let cluster = cluster.id.as_str().replace('-', "_");
    Some((format!("{ACCESS_TOKEN}{cluster}"), variable))
}

fn text(text: String) -> DesiredVariable {
    DesiredVariable {
        source: VariableSource::Text(text),
        version: None,
        protected: false,
        masked: false,
        raw: false,
    }
}

fn secret(from: ValueSource) -> DesiredVariable {
    DesiredVariable {
        source: VariableSource::Credential(from),
        version: None,
        protected: false,
        masked: true,
        raw: false,
    }
}
