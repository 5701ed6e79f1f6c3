//! Enrolment: issues bootstrap tokens and install manifests, exchanges a token and a certificate
//! request for an identity, renews identities.
//!
//! A token is spent before it is honoured. No token is ever logged.

mod adoption;
mod check;
mod error;
mod install;
mod issue;
mod manifest;
mod proxies;
mod renewals;
mod rotation;
mod spend;
mod steward;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{Router, routing::post};
use fairlead_api::{
    HubUrl, JoinString,
    adoption::ADOPT_PATH,
    enroll::{CHECK_PATH, ENROLL_PATH, RENEW_PATH},
    resources::{JoinInfo, SiteSettings},
};
use fairlead_delivery::ToolManifests;
use fairlead_registry::{Effective, Invitations, RegistryError, template_of};
use fairlead_routes::{ApiModule, ApiRoutes, reply::finish};
use fairlead_seam::Module;
use fairlead_store::{Clock, Store, model::Cluster};
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;

use crate::{
    authorities::TrustedAuthorities,
    bootstrap_key::{BootstrapKey, MAX_TOKEN_BYTES},
};
use error::EnrollError;

pub(crate) use adoption::AdoptionLimits;
pub use adoption::{ADOPTION_TTL, AdoptionSettings};
pub use manifest::{AgentStart, ManifestInput, manifest};
pub(crate) use renewals::RenewalLimit;
pub use spend::{Enrolled, SpendError, TokenClaim, spend};

/// Path of our agent's install manifest; the bootstrap token is its query. This is the one secret
/// in a URL: single use, valid for half an hour, never logged.
const AGENT_PATH: &str = "/install/agent.yaml";
/// Path of the values of the chart `fairlead-agent`, likewise with the bootstrap token.
const AGENT_VALUES_PATH: &str = "/install/agent-values.yaml";
/// Path of the install manifests of Project Syn's Steward.
const STEWARD_PATH: &str = "/install/steward.json";

/// Settings of enrolment.
#[derive(Debug, Clone)]
pub struct EnrollSettings {
    /// Time after its expiry within which an identity may renew itself, unless another key has
    /// enrolled since. Zero disables late renewal.
    pub renew_grace: Duration,
    /// Version of the hub, for the install manifest.
    pub version: String,
    /// The agent's image, for the install manifest.
    pub image: String,
    /// The image of Project Syn's Steward, for its install manifests.
    pub steward_image: String,
    /// Adoption of agents without a join string; `None`: the hub adopts none.
    pub adoption: Option<AdoptionSettings>,
}

/// Issues invitations and identities.
pub(crate) struct Enroll {
    pub(crate) settings: EnrollSettings,
    pub(crate) public_url: HubUrl,
    /// Prefix of install URLs.
    pub(crate) install_base: String,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) authorities: Arc<TrustedAuthorities>,
    pub(crate) bootstrap: BootstrapKey,
    pub(crate) renewals: RenewalLimit,
    pub(crate) adoptions: AdoptionLimits,
    /// Manifests of GitOps tools that the hub installs.
    pub(crate) tools: ToolManifests,
}

impl Enroll {
    fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// Network settings of a cluster's site.
    fn site_of(&self, cluster: &Cluster) -> SiteSettings {
        let view = self.store.view();
        Effective::of(cluster, template_of(&view, &cluster.tenant)).site()
    }

    /// The join string for a bootstrap token of a site.
    fn join_string(
        &self,
        token: SecretString,
        site: &SiteSettings,
    ) -> Result<SecretString, EnrollError> {
        let join = JoinString {
            hubs: site.addresses(&self.public_url),
            ca_pins: self.authorities.set().pins(),
            token,
        };
        join.encode().map_err(EnrollError::internal)
    }
}

pub(crate) struct EnrollModule(pub(crate) Arc<Enroll>);

#[async_trait]
impl Module for EnrollModule {
    fn name(&self) -> &'static str {
        "enroll"
    }

    fn agent_routes(&self) -> Router {
        let router = Router::new()
            .route(ENROLL_PATH, post(issue::enroll))
            .route(RENEW_PATH, post(issue::renew))
            .route(CHECK_PATH, post(check::check))
            .route(ADOPT_PATH, post(adoption::adopt));
        finish(router.with_state(Arc::clone(&self.0)))
    }
}

impl ApiModule for EnrollModule {
    fn api_routes(&self) -> ApiRoutes {
        install::routes()
            .merge(rotation::routes())
            .merge(adoption::routes())
            .with_state(Arc::clone(&self.0))
    }
}

impl Invitations for Enroll {
    fn invitation(&self, cluster: &Cluster) -> Result<JoinInfo, RegistryError> {
        invitation(self, cluster).map_err(RegistryError::internal)
    }

    fn install_url(&self, cluster: &Cluster) -> SecretString {
        install_url(self, cluster)
    }
}

/// Material for the site operator: one token as join string and as install URL. Reproducible at any
/// time for authorised callers, because the token is a keyed hash.
///
/// # Errors
/// [`EnrollError::Internal`]
fn invitation(enroll: &Enroll, cluster: &Cluster) -> Result<JoinInfo, EnrollError> {
    let token = enroll.bootstrap.token(&cluster.id, &cluster.binding);
    let url = |path: &str| install_url_of(enroll, path, &token);
    let (agent_install_url, install_url) = (url(AGENT_PATH), url(STEWARD_PATH));
    let agent_values_url = url(AGENT_VALUES_PATH);
    Ok(JoinInfo {
        id: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        display_name: cluster.shown_name().to_owned(),
        join: enroll.join_string(token, &enroll.site_of(cluster))?,
        agent_install_url,
        agent_values_url,
        install_url,
        expires: cluster.binding.bootstrap.expires,
    })
}

/// Steward's install URL alone: lists contain it for every cluster.
fn install_url(enroll: &Enroll, cluster: &Cluster) -> SecretString {
    let mut url = install_url_without_token(enroll, STEWARD_PATH);
    (enroll.bootstrap).write(&cluster.id, &cluster.binding, &mut url);
    url.into()
}

fn install_url_of(enroll: &Enroll, path: &str, token: &SecretString) -> SecretString {
    let mut url = install_url_without_token(enroll, path);
    url.push_str(token.expose_secret());
    url.into()
}

/// Reserves capacity for the token.
fn install_url_without_token(enroll: &Enroll, path: &str) -> String {
    let parts = [&enroll.install_base, path, "?token="];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut url = String::with_capacity(length + MAX_TOKEN_BYTES);
    url.extend(parts);
    url
}
