//! Configuration of agents: one document per cluster. An agent pulls its own. A new revision is
//! announced on the next probe, which is sent at once. Answers to probes report the applied revision.

mod desired;
mod document;
mod keys;
mod tool;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Extension, Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use fairlead_api::{
    Code,
    config::{AgentConfig, AgentConfigStatus, CONFIG_PATH},
    gitops::KEYS_PATH,
    resources::{AgentSettings as ShownSettings, List},
};
use fairlead_delivery::ToolManifests;
use fairlead_registry::{
    Listing, RegistryError, admit, agent_settings, allow_in, by, check_unchanged, listed, tagged,
    visible,
};
use fairlead_routes::{
    ApiModule, ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Path, Peer, finish},
};
use fairlead_runtime::Process;
use fairlead_seam::{AgentPeer, Module, Principal};
use fairlead_store::{
    Record, Store, View,
    model::{AgentSettings, Cluster},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use tracing::info;

pub(crate) use desired::DesiredRevisions;

/// Desired configurations, and the store that they are made from.
struct Configuration {
    store: Store,
    desired: Arc<DesiredRevisions>,
    tools: ToolManifests,
}

pub(crate) struct ConfigurationModule(Arc<Configuration>);

impl ConfigurationModule {
    pub(crate) fn new(store: Store, desired: Arc<DesiredRevisions>, tools: ToolManifests) -> Self {
        ConfigurationModule(Arc::new(Configuration {
            store,
            desired,
            tools,
        }))
    }
}

#[async_trait]
impl Module for ConfigurationModule {
    fn name(&self) -> &'static str {
        "configuration"
    }

    fn agent_routes(&self) -> Router {
        let router = Router::new()
            .route(CONFIG_PATH, get(pull))
            .route(KEYS_PATH, post(keys::replace));
        finish(router.with_state(Arc::clone(&self.0)))
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = self.0.desired.watch(&self.0.store) => {}
            () = process.draining() => {}
        }
    }
}

impl ApiModule for ConfigurationModule {
    fn api_routes(&self) -> ApiRoutes {
        const TAG: Tag = Tag::CLUSTER;
        const SETTINGS_PATH: &str = "/v1/clusters/{clusterId}/agent";
        ApiRoutes::new()
            .route(
                RouteSpec::get(
                    TAG,
                    "/v1/agents",
                    "listAgents",
                    "List agents with an outdated configuration",
                )
                .query(Listing::parameters())
                .gives_list::<AgentConfigStatus>(200, "AgentConfigStatus"),
                list,
            )
            .route(
                RouteSpec::get(
                    TAG,
                    SETTINGS_PATH,
                    "getAgent",
                    "Get the agent settings of a cluster",
                )
                .gives::<ShownSettings>(200),
                settings,
            )
            .route(
                RouteSpec::put(
                    TAG,
                    SETTINGS_PATH,
                    "putAgent",
                    "Replace the agent settings of a cluster",
                )
                .needs(&[Right::WRITE_CLUSTER])
                .takes::<ShownSettings>()
                .honours_if_match()
                .gives::<ShownSettings>(200),
                put,
            )
            .route(
                RouteSpec::get(
                    TAG,
                    "/v1/clusters/{clusterId}/config",
                    "getAgentConfig",
                    "Get the configuration of a cluster's agent",
                )
                .gives::<AgentConfig>(200),
                show,
            )
            .with_state(Arc::clone(&self.0))
    }
}

/// `GET /v1/agents`: agents with an outdated configuration.
async fn list(
    State(state): State<Arc<Configuration>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let asked = Listing::of(&uri)?;
    let view = state.store.view();
    let (found, link) = asked.clusters(&view, &caller);
    let items = found.into_iter().map(|it| configured(&state, &view, it));
    let items = items.collect();
    Ok(listed(&headers, &view, &List { items }, link)?)
}

fn configured(state: &Configuration, view: &View, cluster: &Record<Cluster>) -> AgentConfigStatus {
    let desired = state.desired.of(view, cluster);
    let applied = state.store.observed_of(cluster).applied.clone();
    AgentConfigStatus {
        cluster: cluster.value.id.clone(),
        outdated: applied
            .as_deref()
            .is_some_and(|applied| *applied != *desired),
        desired: desired.to_string(),
        applied,
    }
}

/// `GET /v1/clusters/{id}/config`: the document as its agent receives it.
async fn show(
    State(state): State<Arc<Configuration>>,
    Path(id): Path<String>,
    Authenticated(caller): Authenticated,
) -> Answer<Response> {
    let view = state.store.view();
    let cluster = visible(&view, &caller, &id)?;
    let (document, revision) = state.desired.current(&view, &cluster);
    Ok((etag(&revision)?, Json(document)).into_response())
}

/// `GET /v1/clusters/{id}/agent`: the settings of this cluster alone.
async fn settings(
    State(state): State<Arc<Configuration>>,
    Path(id): Path<String>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
) -> Answer<Response> {
    let cluster = visible(&state.store.view(), &caller, &id)?;
    Ok(tagged(
        &headers,
        StatusCode::OK,
        None,
        &cluster.value.agent,
    )?)
}

/// `PUT /v1/clusters/{id}/agent`: replaces them.
async fn put(
    State(state): State<Arc<Configuration>>,
    Path(id): Path<String>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<AgentSettings>,
) -> Answer<Response> {
    agent_settings::check(&settings)?;
    let caller = principal.caller().await?;
    let view = state.store.view();
    let known = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &known.value, Right::WRITE_CLUSTER)?;
    tool::check(&state.tools, &view, &known.value, &settings)?;
    let (principal, sent) = (caller.clone(), settings.clone());
    let changed = state.store.change(by(&caller), move |draft| {
        let cluster = visible(draft, &principal, &id)?;
        check_unchanged(&headers, &cluster.value.agent)?;
        let id = cluster.value.id.clone();
        draft.amend_cluster(&id, |cluster| cluster.agent = sent.clone())?;
        Ok::<_, RegistryError>(id)
    });
    let id = changed.await?.value;
    info!(cluster = %id, caller = caller.name, "agent settings changed");
    Ok(tagged(&HeaderMap::new(), StatusCode::OK, None, &settings)?)
}

/// `GET /agent/v1/config`
async fn pull(
    State(state): State<Arc<Configuration>>,
    Peer(peer): Peer,
    headers: HeaderMap,
) -> Answer<Response> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    let cluster = admit(&state.store, &identity)?;
    let view = state.store.view();
    let desired = state.desired.of(&view, &cluster);
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let known = known.map(|tag| tag.trim_matches('"'));
    if known == Some(&*desired) {
        return Ok((StatusCode::NOT_MODIFIED, etag(&desired)?).into_response());
    }
    let (document, revision) = state.desired.current(&view, &cluster);
    Ok((etag(&revision)?, Json(document)).into_response())
}

fn etag(revision: &str) -> Result<HeaderMap, RegistryError> {
    let value =
        HeaderValue::try_from(format!("\"{revision}\"")).map_err(RegistryError::internal)?;
    Ok(HeaderMap::from_iter([(header::ETAG, value)]))
}
