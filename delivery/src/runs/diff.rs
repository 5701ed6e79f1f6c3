//! `POST /v1/bundles/{id}/diff`: comparisons of a bundle with real clusters, one run for each.
//!
//! The spec of a comparison is stored as content. An agent may read it while its run names it.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    BundleId, ClusterId, Code, Failure, TenantId,
    delivery::{ArtifactId, DiffRequest, Run, RunKind, SpecId, Target},
    resources::List,
};
use fairlead_bundle::{Generation, Outcome, RenderedSpec, Renderer, fields::errors_of_bundle};
use fairlead_registry::{
    RegistryError, allow_in, allow_in_tenant, allow_somewhere, sees_tenant, visible,
};
use fairlead_routes::{
    ApiRoutes, RouteSpec, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Record, View, millis, model::Cluster};
use http::StatusCode;
use serde_json::json;
use tracing::info;

use super::{NewCommand, Runs, commands::no_such_bundle};
use crate::{
    clusters::with_cluster,
    rights::{DELIVER, TAG},
};

/// Maximum number of clusters of one request.
const MAX_CLUSTERS: usize = 100;
/// Limit of a request in bytes: options may have many values.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// Route of people.
pub(super) fn routes() -> ApiRoutes<Arc<Runs>> {
    ApiRoutes::new().route(
        RouteSpec::post(
            TAG,
            "/v1/bundles/{bundleId}/diff",
            "diffBundle",
            "Compare a bundle with the objects of clusters, one run for each cluster",
        )
        .needs(&[DELIVER])
        .takes::<DiffRequest>()
        .example(json!({ "clusters": ["c-of-a"] }))
        .gives_list::<Run>(201, "Runs"),
        diff,
    )
}

async fn diff(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<DiffRequest, MAX_REQUEST_BYTES>,
) -> Answer<Response> {
    let items = runs.compare(&caller, &id, request).await?;
    Ok((StatusCode::CREATED, Json(List { items })).into_response())
}

impl Runs {
    /// Checks all clusters, then creates a run for each.
    async fn compare(
        &self,
        caller: &Caller,
        id: &str,
        request: DiffRequest,
    ) -> Result<Vec<Run>, RegistryError> {
        allow_somewhere(caller, DELIVER)?;
        let view = self.parts.store.view();
        let count = request.clusters.len();
        if count == 0 || count > MAX_CLUSTERS {
            return Err(invalid(format_args!("clusters: expected 1 to {MAX_CLUSTERS}")).into());
        }
        let (generation, number) = self.compared(&view, caller, (id, &request)).await?;
        let clusters = clusters_of(&view, caller, (&request.clusters, &generation.tenant))?;
        let mut specs = Vec::with_capacity(clusters.len());
        for cluster in &clusters {
            specs.push(spec_for(&view, &cluster.value, &generation)?);
        }
        let now = millis(self.parts.clock.now());
        self.parts.contents.touch(&generation.artifact, now).await?;
        let mut runs = Vec::with_capacity(clusters.len());
        for (cluster, spec) in clusters.iter().zip(specs) {
            let content = content_of(&spec.id)?;
            self.parts.contents.put(&content, &spec.json, now).await?;
            let created = self.create(NewCommand {
                cluster: cluster.value.id.clone(),
                bundle: generation.bundle.clone(),
                kind: RunKind::Diff,
                generation: number,
                content: Some((spec.id.clone(), generation.artifact.clone())),
                confirm: false,
                created_by: caller.name.clone(),
            });
            runs.push(created.await?);
        }
        info!(bundle = %generation.bundle, clusters = count, caller = caller.name, "comparison requested");
        Ok(runs)
    }

    /// Content and options to compare, and the number of the newest generation. A hidden bundle is answered like a missing one.
    async fn compared(
        &self,
        view: &View,
        caller: &Caller,
        (id, request): (&str, &DiffRequest),
    ) -> Result<(Generation, u64), RegistryError> {
        let bundle: BundleId = id.parse().map_err(|_| no_such_bundle(id))?;
        let known = view.bundle(&bundle).map(|it| &it.value);
        let known = known.filter(|it| sees_tenant(view, caller, &it.tenant));
        let newest = known.and_then(|it| it.newest());
        let tenant = match (known, &request.tenant) {
            (Some(known), _) => known.tenant.clone(),
            (None, Some(tenant)) if sees_tenant(view, caller, tenant) => tenant.clone(),
            _ => return Err(no_such_bundle(id).into()),
        };
        allow_in_tenant(view, caller, &tenant, DELIVER)?;
        let stored = match (known, newest) {
            (Some(known), Some(newest)) => Some(self.parts.generations.load(known, newest).await?),
            _ => None,
        };
        let number = newest.map_or(0, |it| it.number);
        if let Some(stored) = &stored
            && request.artifact.is_none()
            && request.fields.is_none()
        {
            return Ok((stored.clone(), number));
        }
        let artifact = request.artifact.clone();
        let artifact = match (artifact, &stored) {
            (Some(artifact), _) => {
                let now = millis(self.parts.clock.now());
                let artifacts = &self.parts.artifacts;
                artifacts
                    .take_up((view, caller), &tenant, &artifact, now)
                    .await?;
                artifact
            }
            (None, Some(stored)) => stored.artifact.clone(),
            (None, None) => return Err(invalid("artifact: the bundle has no content yet").into()),
        };
        let facts = self.parts.artifacts.facts(&artifact).await?;
        let fields = request.fields.clone();
        let fields = fields
            .or_else(|| stored.map(|it| it.fields))
            .unwrap_or_default();
        let errors = errors_of_bundle(&bundle, &fields, facts.has_chart);
        if let Some(error) = errors.first() {
            return Err(Failure::because(Code::BadBundle, error).into());
        }
        let generation = Generation {
            bundle,
            tenant,
            artifact,
            used: facts.used.clone(),
            fields,
        };
        Ok((generation, number))
    }
}

/// Visible clusters that the tenant's bundles reach, each with the right to deliver.
fn clusters_of(
    view: &View,
    caller: &Caller,
    (ids, tenant): (&[ClusterId], &TenantId),
) -> Result<Vec<Arc<Record<Cluster>>>, RegistryError> {
    let mut clusters = Vec::with_capacity(ids.len());
    for id in ids {
        let cluster = visible(view, caller, id.as_str())?;
        allow_in(view, caller, &cluster.value, DELIVER)?;
        if !view.within(&cluster.value.tenant, tenant) {
            let cause = format_args!("clusters: bundles of {tenant} do not reach {id}");
            return Err(invalid(cause).into());
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

/// The spec of a cluster. One that no target matches gets the options of the bundle alone.
fn spec_for(
    view: &View,
    cluster: &Cluster,
    generation: &Generation,
) -> Result<Arc<RenderedSpec>, RegistryError> {
    let mut generation = generation.clone();
    generation.fields.targets.push(Target {
        clusters: vec![cluster.id.clone()],
        ..Target::default()
    });
    let mut renderer = Renderer::new(generation);
    let id = &cluster.id;
    let refused = |cause: String| invalid(format_args!("clusters: {id}: {cause}"));
    match with_cluster(view, cluster, |it| renderer.render(it)) {
        Outcome::Spec { spec, .. } => Ok(spec),
        Outcome::Blocked { reasons, .. } => Err(refused(reasons.join("; ")).into()),
        Outcome::Skipped { target } => {
            Err(refused(format!("targets[{target}] excludes the cluster")).into())
        }
        Outcome::Unmatched => Err(refused("the bundle does not reach it".to_owned()).into()),
    }
}

/// Name of a spec as a content.
fn content_of(spec: &SpecId) -> Result<ArtifactId, RegistryError> {
    spec.as_str().parse().map_err(RegistryError::internal)
}
