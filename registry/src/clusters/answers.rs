//! Responses for clusters: lists, single documents, dry runs, creation.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use fairlead_api::resources::AgentInvitation;
use fairlead_routes::{
    Right,
    reply::{Answer, Secret},
};
use fairlead_seam::Caller;
use fairlead_store::{Observed, Record, View, millis, model::Cluster};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use time::OffsetDateTime;
use tracing::info;

use crate::{
    document::shown::{CachedDocument, ShownCluster},
    error::RegistryError,
    etag,
    listing::clusters::ClusterPage,
    registry::Registry,
    stale::stale_names,
    template::template_of,
};

/// Typical size of a cluster's document, in bytes.
const TYPICAL_DOCUMENT_BYTES: usize = 1024;

/// A list of clusters with a link to the next page.
pub(super) fn list(
    registry: &Registry,
    view: &View,
    caller: &Caller,
    page: ClusterPage<'_>,
    headers: &HeaderMap,
) -> Answer<Response> {
    let context = DocumentContext::of(registry, view, caller);
    let mut list = Vec::with_capacity(page.clusters.len() * TYPICAL_DOCUMENT_BYTES);
    list.push(b'[');
    for (record, observed) in &page.clusters {
        if list.len() > 1 {
            list.push(b',');
        }
        let shown = context.shown(record, observed)?;
        shown.write(&mut list).map_err(RegistryError::from)?;
    }
    list.push(b']');
    let listed = etag::serialized_answer(headers, StatusCode::OK, None, list)?;
    Ok(etag::of_view(listed, view, page.link))
}

/// The cluster with its ETag.
pub(super) fn answer(
    registry: &Registry,
    view: &View,
    caller: &Caller,
    record: &Arc<Record<Cluster>>,
    headers: &HeaderMap,
) -> Answer<Response> {
    let observed = registry.store.observed_of(record);
    let shown = DocumentContext::of(registry, view, caller).shown(record, &observed)?;
    one(&shown, headers, StatusCode::OK, Some(record.version))
}

/// Result of a dry run, without status and invitation.
pub(super) fn dry_run_result(
    registry: &Registry,
    record: &Record<Cluster>,
    status: StatusCode,
) -> Answer<Response> {
    let view = registry.store.view();
    let template = template_of(&view, &record.value.tenant);
    let shown = ShownCluster {
        cached: CachedDocument::of(record, template, &registry.services)
            .map_err(RegistryError::from)?,
        version: record.version,
        stale: Vec::new(),
        status: None,
        install_url: None,
        invitation: AgentInvitation::default(),
    };
    one(&shown, &HeaderMap::new(), status, None)
}

/// Caller-specific parts of cluster documents.
struct DocumentContext<'a> {
    registry: &'a Registry,
    view: &'a View,
    invites: bool,
    now: OffsetDateTime,
}

impl<'a> DocumentContext<'a> {
    fn of(registry: &'a Registry, view: &'a View, caller: &Caller) -> Self {
        DocumentContext {
            registry,
            view,
            invites: Right::INVITE.allows(caller),
            now: registry.now(),
        }
    }

    fn shown<'s>(
        &self,
        record: &'s Record<Cluster>,
        observed: &'s Observed,
    ) -> Result<ShownCluster<'s>, RegistryError> {
        let cluster = &record.value;
        let (reporting, now) = (&self.registry.settings.reporting, millis(self.now));
        let invited = self.invites && cluster.binding.bootstrap.open(self.now);
        Ok(ShownCluster {
            cached: (self.registry.documents).of(self.view, record, &self.registry.services)?,
            version: record.version,
            stale: stale_names(&cluster.dynamic_facts, observed, reporting, now),
            status: Some(&observed.status),
            install_url: invited.then(|| self.registry.services.invitations.install_url(cluster)),
            invitation: AgentInvitation::default(),
        })
    }
}

/// Response to a creation, including the join string.
pub(super) fn created(
    registry: &Registry,
    caller: &Caller,
    record: &Arc<Record<Cluster>>,
    headers: &HeaderMap,
) -> Answer<Response> {
    let cluster = &record.value;
    info!(cluster = %cluster.id, tenant = %cluster.tenant, caller = caller.name, "cluster created");
    let view = registry.store.view();
    let observed = registry.store.observed_of(record);
    let mut shown = DocumentContext::of(registry, &view, caller).shown(record, &observed)?;
    if shown.install_url.is_some() {
        shown.invitation = invites(registry, cluster)?;
    }
    let version = Some(record.version);
    let mut answer = one(&shown, headers, StatusCode::CREATED, version)?;
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::try_from(format!("/clusters/{}", cluster.id)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// Invitation of the cluster's agent.
fn invites(registry: &Registry, cluster: &Cluster) -> Result<AgentInvitation, RegistryError> {
    let invited = registry.services.invitations.invitation(cluster)?;
    Ok(AgentInvitation {
        join: Some(invited.join),
        agent_install_url: Some(invited.agent_install_url),
        agent_values_url: Some(invited.agent_values_url),
        expires: Some(invited.expires),
    })
}

/// One cluster with its ETag.
fn one(
    shown: &ShownCluster<'_>,
    headers: &HeaderMap,
    status: StatusCode,
    version: Option<u64>,
) -> Answer<Response> {
    let mut body = Vec::with_capacity(TYPICAL_DOCUMENT_BYTES);
    shown.write(&mut body).map_err(RegistryError::from)?;
    Ok(etag::serialized_answer(headers, status, version, body)?)
}

/// The current join string and install URLs.
pub(crate) fn invited(registry: &Registry, cluster: &Cluster) -> Answer<Response> {
    Ok(Secret(registry.services.invitations.invitation(cluster)?).into_response())
}
