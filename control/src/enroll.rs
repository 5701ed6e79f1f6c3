//! Enrolment: issues bootstrap tokens and install manifests, exchanges a token and a certificate
//! request for an identity, renews identities.
//!
//! A token is spent before it is honoured. No token is ever logged.

mod install;
mod issue;
mod manifest;
mod spend;
mod steward;
mod token;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Router,
    routing::{get, post},
};
use fairlead_api::{
    Code, Failure, JoinString,
    enroll::{ENROLL_PATH, RENEW_PATH},
    resources::JoinInfo,
};
use fairlead_gateway::Module;
use fairlead_store::model::Cluster;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;

pub use manifest::{ManifestInput, manifest};
pub use spend::{Claim, Enrolled, SpendError, spend};
pub(crate) use token::BootstrapKey;

use crate::{hub::Hub, reply::finish};

/// Path of our agent's install manifest; the bootstrap token is its query. This is the one secret
/// in a URL: single use, valid for half an hour, never logged.
pub const AGENT_PATH: &str = "/install/agent.yaml";
/// Path of the install manifests of Project Syn's Steward.
pub const STEWARD_PATH: &str = "/install/steward.json";

pub(crate) struct Enroll(pub(crate) Arc<Hub>);

#[async_trait]
impl Module for Enroll {
    fn name(&self) -> &'static str {
        "enroll"
    }

    fn open(&self) -> Router {
        let router = Router::new()
            .route(AGENT_PATH, get(install::agent))
            .route(STEWARD_PATH, get(install::steward));
        finish(router.with_state(Arc::clone(&self.0)))
    }

    fn agents(&self) -> Router {
        let router = Router::new()
            .route(ENROLL_PATH, post(issue::enroll))
            .route(RENEW_PATH, post(issue::renew));
        finish(router.with_state(Arc::clone(&self.0)))
    }
}

impl Hub {
    /// Expiry of a bootstrap token issued now, in whole seconds as encoded in the token.
    pub(crate) fn bootstrap_expiry(&self, now: OffsetDateTime) -> OffsetDateTime {
        let now = now.replace_nanosecond(0).unwrap_or(now);
        now + self.settings.bootstrap_ttl
    }

    /// The join string for a bootstrap token.
    pub(crate) fn join_string(&self, token: SecretString) -> Result<SecretString, Failure> {
        let join = JoinString {
            hubs: vec![self.settings.public_url.clone()],
            ca_pin: self.authority.pin(),
            token,
        };
        join.encode()
            .map_err(|error| Failure::because(Code::Internal, error))
    }
}

/// Material for the site operator: one token as join string and as install URL. Reproducible at any
/// time for authorised callers, because the token is a keyed hash.
///
/// # Errors
/// `FL-5101`
pub(crate) fn invitation(hub: &Hub, cluster: &Cluster) -> Result<JoinInfo, Failure> {
    let token = hub.bootstrap.token(&cluster.id, &cluster.binding.bootstrap);
    let url = |path: &str| install_url_of(hub, path, &token);
    let (agent_install_url, install_url) = (url(AGENT_PATH), url(STEWARD_PATH));
    Ok(JoinInfo {
        id: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        display_name: cluster.shown_name().to_owned(),
        join: hub.join_string(token)?,
        agent_install_url,
        install_url,
        expires: cluster.binding.bootstrap.expires,
    })
}

/// Steward's install URL alone: lists contain it for every cluster.
pub(crate) fn install_url(hub: &Hub, cluster: &Cluster) -> SecretString {
    let mut url = install_url_without_token(hub, STEWARD_PATH);
    (hub.bootstrap).write(&cluster.id, &cluster.binding.bootstrap, &mut url);
    url.into()
}

fn install_url_of(hub: &Hub, path: &str, token: &SecretString) -> SecretString {
    let mut url = install_url_without_token(hub, path);
    url.push_str(token.expose_secret());
    url.into()
}

/// Reserves capacity for the token.
fn install_url_without_token(hub: &Hub, path: &str) -> String {
    let parts = [&hub.settings.install_base, path, "?token="];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut url = String::with_capacity(length + token::MAX_TOKEN_BYTES);
    url.extend(parts);
    url
}
