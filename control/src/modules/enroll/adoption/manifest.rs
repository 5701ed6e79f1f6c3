//! `GET /install/adoption.yaml`: the install manifest without a secret, for catalogs of applications and images.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::IntoResponse,
};
use fairlead_api::{
    Code, TenantId, gitops::GitOpsTool, resources::SiteSettings, site::SiteChoices,
};
use fairlead_routes::{
    InvalidValue, QueryParameter, RouteSpec, Tag, invalid,
    reply::{Answer, Rejected},
};
use http::{HeaderValue, header};
use tracing::info;

use crate::modules::enroll::{
    AgentStart, Enroll, ManifestInput, error::EnrollError, install::choice_parameters, manifest,
};

const TENANT_PARAMETER: &str = "tenant";

pub(super) fn spec() -> RouteSpec {
    RouteSpec::get(
        Tag::BOOTSTRAPPING,
        "/install/adoption.yaml",
        "installForAdoption",
        "Get the manifest of an agent that waits for its adoption; it holds no secret",
    )
    .open()
    .query(choice_parameters())
    .query([QueryParameter::text(
        TENANT_PARAMETER,
        "Tenant of the cluster: the manifest grants its groups",
    )])
    .fails(400, "The tenant is missing, or a parameter is invalid")
    .fails(403, "The hub adopts no agents")
    .gives_text(200, "application/yaml")
}

pub(super) async fn get(
    State(enroll): State<Arc<Enroll>>,
    RawQuery(query): RawQuery,
) -> Answer<impl IntoResponse> {
    let query = query.unwrap_or_default();
    if enroll.settings.adoption.is_none() {
        return Err(Code::AdoptionOff.into());
    }
    let tenant = tenant_of(&query)?;
    let choices = SiteChoices::from_query(&query).map_err(EnrollError::from)?;
    let body = manifest(&ManifestInput {
        start: AgentStart::Adopt {
            hub: enroll.public_url.clone(),
        },
        tenant,
        choices,
        gitops: GitOpsTool::None,
        adopt: false,
        tool_exists: false,
        installer: None,
        // Settings of a tenant would show its network to everybody.
        site: SiteSettings::default(),
        image: enroll.settings.image.clone(),
        version: enroll.settings.version.clone(),
    });
    let body = body.map_err(|error| Rejected::because(Code::Internal, error))?;
    info!("manifest for an adoption served");
    let kind = HeaderValue::from_static("application/yaml; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], body))
}

fn tenant_of(query: &str) -> Result<TenantId, InvalidValue> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let given = pairs.find(|(name, _)| *name == TENANT_PARAMETER);
    let (_, given) = given.ok_or_else(|| invalid("tenant is missing"))?;
    TenantId::from_name(given).map_err(|error| invalid(format_args!("tenant: {error}")))
}
