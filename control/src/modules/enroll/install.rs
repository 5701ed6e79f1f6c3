//! `/install/`: manifests for `kubectl apply -f`.
//!
//! Reading our agent's manifest spends nothing: the agent spends the token itself. Steward's
//! manifest contains a token of its own, so the bootstrap token is spent first.

use std::sync::Arc;

use axum::{
    Json,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
};
use fairlead_api::{
    ClusterId, Code,
    gitops::GitOpsSettings,
    resources::Role,
    site::{
        DELIVERY_PARAMETER, GIT_PROXY_PARAMETER, IMPERSONATION_PARAMETER, NAMESPACES_PARAMETER,
        SiteChoices,
    },
};
use fairlead_delivery::{catalog_url, desired_tool, is_tool_of_others};
use fairlead_gitops_install::{Installation, InstallerRights, rights};
use fairlead_registry::{new_token, template_of};
use fairlead_routes::{
    ApiRoutes, QueryParameter, RouteSpec, Tag,
    reply::{Answer, Rejected, Requester},
};
use fairlead_seam::TooManyWrongTokens;
use fairlead_store::{
    Actor, Draft, View,
    model::{Bootstrap, Cluster, Token},
    whole_millis,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use serde_saphyr::ser::Error as SerializeError;
use time::Duration;
use tracing::{info, warn};

use crate::bootstrap_key::Claims;

use super::{
    AGENT_PATH, AGENT_VALUES_PATH, AgentStart, Enroll, ManifestInput, STEWARD_PATH, SpendError,
    error::EnrollError,
    manifest,
    manifest::values,
    proxies::external_url,
    steward::{self, Steward},
};

/// Lifetime of Steward's token: it never requests another one.
pub(super) const STEWARD_TOKEN_TTL: Duration = Duration::days(3660);
/// Creator recorded with Steward's token.
pub(super) const CREATED_BY: &str = "steward.json";

/// The token from the query, as in Lieutenant's URLs, or from a bearer token, which proxies do not
/// log. It contains no character that a URL would encode.
fn token(query: Option<&str>, headers: &HeaderMap) -> Option<SecretString> {
    let query = query.unwrap_or_default();
    let of_query = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="));
    let of_header = || {
        let header = headers.get(header::AUTHORIZATION)?;
        header.to_str().ok()?.strip_prefix("Bearer ")
    };
    let token = of_query.or_else(of_header)?;
    (!token.is_empty()).then(|| SecretString::from(token))
}

/// Keeps the response out of caches and its URL out of `Referer`.
fn private(content_type: &'static str) -> [(header::HeaderName, HeaderValue); 3] {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    headers.map(|(name, value)| (name, HeaderValue::from_static(value)))
}

pub(super) fn routes() -> ApiRoutes<Arc<Enroll>> {
    const TAG: Tag = Tag::BOOTSTRAPPING;
    let with_token = |spec: RouteSpec| {
        let token = "Bootstrap token; alternatively a bearer token";
        spec.open()
            .query([QueryParameter::text("token", token)])
            .fails(401, "The token is wrong, or has expired")
            .fails(404, "It does not exist, or the caller may not know of it")
    };
    let steward_spec = RouteSpec::get(
        TAG,
        STEWARD_PATH,
        "installSteward",
        "Get Steward's manifests; this spends the bootstrap token",
    );
    let agent_spec = RouteSpec::get(
        TAG,
        AGENT_PATH,
        "installAgent",
        "Get the agent's manifest; the agent spends the bootstrap token",
    );
    let values_spec = RouteSpec::get(
        TAG,
        AGENT_VALUES_PATH,
        "agentValues",
        "Get the values of the chart fairlead-agent; the agent spends the bootstrap token",
    );
    let with_choices = |spec: RouteSpec| {
        let invalid =
            "A namespace, the mode of impersonation, or the rights of deliveries are invalid";
        with_token(spec)
            .query(choice_parameters())
            .fails(400, invalid)
            .gives_text(200, "application/yaml")
    };
    ApiRoutes::new()
        .route(with_token(steward_spec).gives_object(200), steward)
        .route(with_choices(agent_spec), agent)
        .route(with_choices(values_spec), agent_values)
}

/// Parameters with the choices of the site operator.
pub(super) fn choice_parameters() -> [QueryParameter; 4] {
    [
        QueryParameter::pattern(
            NAMESPACES_PARAMETER,
            "Namespaces in which operators may write, separated by commas; none by default",
            "^[a-z0-9,-]*$",
        ),
        QueryParameter::new(
            IMPERSONATION_PARAMETER,
            "Impersonation of the agent: plain, or constrained (KEP-5284, Kubernetes 1.36)",
            json!({ "type": "string", "enum": ["plain", "constrained"] }),
        ),
        QueryParameter::new(
            DELIVERY_PARAMETER,
            "Rights of deliveries: admin, or none for a cluster without deliveries",
            json!({ "type": "string", "enum": ["admin", "none"] }),
        ),
        QueryParameter::pattern(
            GIT_PROXY_PARAMETER,
            "Git server that the GitOps tool reaches through the hub, as host:port; none by default",
            "^[a-z0-9.-]+:[0-9]+$",
        ),
    ]
}

/// `GET /install/agent-values.yaml`: the choices of the manifest, as values of the chart.
async fn agent_values(
    State(enroll): State<Arc<Enroll>>,
    requester: Requester,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<impl IntoResponse> {
    let text = written(&enroll, query.as_deref(), &headers, values);
    yaml(&requester, text, "agent-values.yaml")
}

async fn agent(
    State(enroll): State<Arc<Enroll>>,
    requester: Requester,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<impl IntoResponse> {
    let text = written(&enroll, query.as_deref(), &headers, manifest);
    yaml(&requester, text, "agent.yaml")
}

/// Text for the token and the choices of a request.
fn written(
    enroll: &Enroll,
    query: Option<&str>,
    headers: &HeaderMap,
    write: fn(&ManifestInput) -> Result<String, SerializeError>,
) -> Result<String, EnrollError> {
    let token = token(query, headers).unwrap_or_default();
    let input = input(enroll, token, query.unwrap_or_default())?;
    write(&input).map_err(EnrollError::internal)
}

fn yaml(
    requester: &Requester,
    text: Result<String, EnrollError>,
    route: &'static str,
) -> Answer<impl IntoResponse + use<>> {
    match text {
        Ok(body) => Ok((private("application/yaml; charset=utf-8"), body)),
        Err(error) => {
            count_rejection(requester, &error, route)?;
            Err(error.into())
        }
    }
}

/// Counts an unknown token against the caller's address; the gateway logs the address once, not per
/// guess. A token that was valid earlier indicates a late caller.
fn count_rejection(
    requester: &Requester,
    error: &EnrollError,
    route: &'static str,
) -> Result<(), TooManyWrongTokens> {
    if !error.is_unknown_token() {
        warn!(route, code = %error.code(), "install manifest request rejected");
        return Ok(());
    }
    match requester.principal() {
        Some(principal) => principal.count_wrong_secret(),
        None => Ok(()),
    }
}

/// The cluster, if its bootstrap token is still open.
///
/// # Errors
/// [`SpendError::Unknown`], [`SpendError::Expired`], [`SpendError::Spent`]
fn open_for(
    claims: &Claims,
    cluster: Option<&Cluster>,
    hub_now: time::OffsetDateTime,
) -> Result<Cluster, SpendError> {
    let cluster = cluster
        .filter(|it| it.binding.registration == claims.registration)
        .filter(|it| it.binding.bootstrap.generation == claims.generation)
        .filter(|it| it.binding.bootstrap.expires == claims.expires)
        .ok_or(SpendError::Unknown)?;
    if hub_now >= claims.expires || cluster.binding.bootstrap.revoked {
        return Err(SpendError::Expired);
    }
    if cluster.binding.bootstrap.spent_by.is_some() {
        return Err(SpendError::Spent);
    }
    Ok(cluster.clone())
}

/// Rights of the account that installs the cluster's tool. They name objects, so the URL of the catalog does not matter.
fn installer_rights(
    enroll: &Enroll,
    view: &View,
    cluster: &Cluster,
) -> Result<Option<InstallerRights>, EnrollError> {
    let Some(desired) = desired_tool(view, cluster) else {
        return Ok(None);
    };
    let manifest = enroll.tools.load(&desired);
    let manifest = manifest.map_err(|error| EnrollError::Tool(error.to_string()))?;
    let installation = Installation {
        desired: &desired,
        url: catalog_url(view, cluster).unwrap_or_default(),
        with_controllers: true,
    };
    let objects = fairlead_gitops_install::render(&installation, &manifest);
    let objects = objects.map_err(|error| EnrollError::Tool(error.to_string()))?;
    Ok(Some(rights(&objects)))
}

/// Choices of a cluster's installation, for its token.
fn input(enroll: &Enroll, token: SecretString, query: &str) -> Result<ManifestInput, EnrollError> {
    let claims = enroll.bootstrap.read(&token).ok_or(SpendError::Unknown)?;
    let view = enroll.store.view();
    let cluster = view.cluster(&claims.cluster).map(|it| &it.value);
    let cluster = open_for(&claims, cluster, enroll.now())?;
    let choices = SiteChoices::from_query(query)?;
    let of_all = template_of(&view, &cluster.tenant).map(|it| &it.agent);
    let of_all = of_all.and_then(|it| it.gitops.as_ref());
    let gitops = GitOpsSettings::over(cluster.agent.gitops.as_ref(), of_all);
    let installer = installer_rights(enroll, &view, &cluster)?;
    let tool_exists = is_tool_of_others(&cluster, gitops.tool);
    info!(cluster = %cluster.id, "install manifest served");
    let site = enroll.site_of(&cluster);
    Ok(ManifestInput {
        start: AgentStart::Join {
            cluster: cluster.id,
            join: enroll.join_string(token, &site)?,
        },
        site,
        tenant: cluster.tenant,
        choices,
        gitops: gitops.tool,
        adopt: gitops.install && gitops.adopt,
        tool_exists,
        installer,
        image: enroll.settings.image.clone(),
        version: enroll.settings.version.clone(),
    })
}

/// `GET /install/steward.json`, with the texts that Lieutenant's clients expect.
async fn steward(
    State(enroll): State<Arc<Enroll>>,
    requester: Requester,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let missing = || Rejected::saying(Code::Invalid, StatusCode::BAD_REQUEST, "missing token");
    let token = token(query.as_deref(), &headers).ok_or_else(missing)?;
    let (cluster, token) = match issue_steward_token(&enroll, &token).await {
        Ok(issued) => issued,
        Err(error) => {
            count_rejection(&requester, &error, "steward.json")?;
            return Err(lieutenant_rejection(error));
        }
    };
    info!(%cluster, "Steward manifests issued");
    let is_from_front = requester.principal().is_some();
    let manifests = steward::manifests(&Steward {
        api: &api_url(&enroll, is_from_front, &headers),
        cluster: &cluster,
        token: token.expose_secret(),
        image: &enroll.settings.steward_image,
    });
    Ok((private("application/json"), Json(manifests)).into_response())
}

fn lieutenant_rejection(error: EnrollError) -> Rejected {
    let words = match error {
        EnrollError::Token(SpendError::Unknown) => "Invalid token",
        EnrollError::Token(SpendError::Expired | SpendError::Spent) => {
            "Token already used or expired"
        }
        other => return other.into(),
    };
    Rejected::saying(error.code(), StatusCode::UNAUTHORIZED, words)
}

/// URL of this API as Steward reaches it.
fn api_url(enroll: &Enroll, is_from_front: bool, headers: &HeaderMap) -> String {
    let external = is_from_front.then(|| external_url(headers)).flatten();
    external.unwrap_or_else(|| enroll.public_url.to_string())
}

/// Exchanges the bootstrap token for a token limited to this cluster. Of several concurrent
/// requests one succeeds. Tokens of earlier installations are revoked.
async fn issue_steward_token(
    enroll: &Enroll,
    token: &SecretString,
) -> Result<(ClusterId, SecretString), EnrollError> {
    let claims = enroll.bootstrap.read(token).ok_or(SpendError::Unknown)?;
    let (id, now) = (claims.cluster.clone(), enroll.now());
    let (mut kept, token) = new_token(
        id.as_str(),
        Role::Cluster,
        whole_millis(now),
        STEWARD_TOKEN_TTL,
    )
    .map_err(EnrollError::internal)?;
    kept.cluster = Some(id.clone());
    kept.created_by = Some(CREATED_BY.to_owned());
    let decide = move |draft: &mut Draft| {
        let cluster = draft.cluster(&claims.cluster).map(|it| it.value.clone());
        let mut cluster = open_for(&claims, cluster.as_ref(), now)?;
        let old = draft
            .tokens()
            .filter(|it| is_stewards(&it.value, &cluster.id));
        let old: Vec<String> = old.map(|it| it.value.id.clone()).collect();
        for id in old {
            draft.delete_token(&id)?;
        }
        let by = format!("{}{}", Bootstrap::BY_STEWARD, kept.id);
        cluster.binding.bootstrap.spent_by = Some(by);
        draft.put_cluster(cluster)?;
        Ok::<_, EnrollError>(draft.put_token(kept.clone())?)
    };
    enroll
        .store
        .change(Actor::Agent(id.clone()), decide)
        .await?;
    Ok((id, token))
}

pub(super) fn is_stewards(token: &Token, cluster: &ClusterId) -> bool {
    token.cluster.as_ref() == Some(cluster) && token.created_by.as_deref() == Some(CREATED_BY)
}
