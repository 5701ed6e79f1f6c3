//! Compile pipelines of tenants (`compilePipeline`).

use fairlead_api::resources::CompilePipelineDocument;
use fairlead_routes::InvalidValue;
use fairlead_store::model::{CompilePipeline, Tenant};

use crate::document::{fields::Fields, repo_files, repo_variables::source};

/// Reads a pipeline. The list of clusters is an answer, and is ignored.
///
/// # Errors
/// `FL-4109`, `FL-4142`, `FL-4143`
pub(super) fn read(mut given: Fields) -> Result<CompilePipeline, InvalidValue> {
    let _ = given.value("clusters");
    let files = given.object("pipelineFiles")?;
    let pipeline = CompilePipeline {
        enabled: given.boolean("enabled")?.unwrap_or_default(),
        pipeline_files: files.map(repo_files::read).transpose()?.unwrap_or_default(),
        api_token: given.value("apiToken").map(source).transpose()?,
    };
    given.reject_rest()?;
    Ok(pipeline)
}

/// Document for answers, with the clusters of the last answer of the Git server.
pub(super) fn document(tenant: &Tenant) -> Option<CompilePipelineDocument> {
    let pipeline = tenant.compile_pipeline.as_ref()?;
    Some(CompilePipelineDocument {
        enabled: pipeline.enabled,
        pipeline_files: pipeline.pipeline_files.clone(),
        api_token: pipeline.api_token.clone(),
        clusters: tenant.compiled_clusters.iter().cloned().collect(),
    })
}
