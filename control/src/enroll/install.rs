//! `GET /install/v1/fairlead.yaml?token=`: what `kubectl apply -f` installs. Looking at it spends nothing.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::IntoResponse,
};
use fairlead_api::{Code, Failure};
use http::{HeaderValue, header};
use secrecy::SecretString;
use tracing::{info, warn};

use super::{ManifestInput, manifest};
use crate::{
    hub::Hub,
    reply::{Answer, Refused},
};

pub(super) async fn show(
    State(hub): State<Arc<Hub>>,
    RawQuery(query): RawQuery,
) -> Answer<impl IntoResponse> {
    // Tokens hold nothing that a URL would encode.
    let query = query.unwrap_or_default();
    let token = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="));
    let token = SecretString::from(token.unwrap_or_default());
    let body = render(&hub, token).map_err(|failure| {
        warn!(code = %failure.code, "install manifest refused");
        Refused::from(failure)
    })?;
    let headers = [
        (header::CONTENT_TYPE, "application/yaml; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    Ok((
        headers.map(|(name, value)| (name, HeaderValue::from_static(value))),
        body,
    ))
}

fn render(hub: &Hub, token: SecretString) -> Result<String, Failure> {
    let claims = hub.bootstrap.read(&token).ok_or(Code::BootstrapUnknown)?;
    let view = hub.store.view();
    let cluster = view.cluster(&claims.cluster).map(|it| &it.value);
    let cluster = cluster
        .filter(|it| it.binding.bootstrap.generation == claims.generation)
        .filter(|it| it.binding.bootstrap.expires == claims.expires)
        .filter(|it| !it.binding.bootstrap.revoked)
        .ok_or(Code::BootstrapUnknown)?;
    if hub.now() >= claims.expires {
        return Err(Code::BootstrapExpired.into());
    }
    if cluster.binding.bootstrap.spent_by.is_some() {
        return Err(Code::BootstrapSpent.into());
    }
    info!(cluster = %cluster.id, "install manifest shown");
    manifest(&ManifestInput {
        cluster: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        join: hub.join_string(token)?,
        image: hub.settings.image.clone(),
        version: hub.settings.version.clone(),
    })
}
