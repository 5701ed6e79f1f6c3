//! The modules of one hub, opened.

use std::sync::Arc;

use fairlead_api::{
    Failure,
    resources::{CreateToken, CreatedToken, Role},
};
use fairlead_registry::{TokenCondition, find_token, mint, mint_for};
use fairlead_routes::RouteSpec;
use fairlead_runtime::Process;
use fairlead_seam::Seam;
use fairlead_store::{Actor, Clock, Revision, model::Token};
use rustls::{ClientConfig, ServerConfig};
use secrecy::SecretString;
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::{
    config::Config,
    local,
    modules::{Wired, certificates::CertificateExpiry, wire},
};

/// The modules of one hub; clones share their state.
#[derive(Clone)]
pub struct Control(Arc<Wired>);

impl Control {
    /// Opens the data directory and creates missing parts.
    ///
    /// # Errors
    /// `FL-4103` if the directory cannot be used or another hub runs in it, `FL-4101` for an
    /// invalid setting.
    pub async fn open(config: Config) -> Result<Control, Failure> {
        Control::open_at(config, Clock::system()).await
    }

    /// As [`Control::open`], with another clock.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub async fn open_at(config: Config, clock: Clock) -> Result<Control, Failure> {
        Ok(Control(Arc::new(wire(config, clock).await?)))
    }

    /// The modules and hooks for the gateway.
    #[must_use]
    pub fn seam(&self) -> Seam {
        Seam {
            authenticator: self.0.registry.clone(),
            authorizer: self.0.registry.clone(),
            directory: self.0.registry.clone(),
            modules: self.0.served.modules.clone(),
        }
    }

    /// Descriptions of all routes of the API.
    #[must_use]
    pub fn routes(&self) -> &[RouteSpec] {
        &self.0.served.routes
    }

    /// TLS configuration of the front; updated on renewal.
    #[must_use]
    pub fn front_tls(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.0.certificates.front()
    }

    /// TLS configuration of the inner TLS; updated on renewal.
    #[must_use]
    pub fn session_tls(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.0.certificates.session()
    }

    /// TLS inside of the sessions that this hub opens at other hubs; updated on renewal.
    #[must_use]
    pub fn hub_tls(&self) -> watch::Receiver<Arc<ClientConfig>> {
        self.0.certificates.between_hubs()
    }

    /// Current revision of the registry; notified of every change.
    #[must_use]
    pub fn revision(&self) -> watch::Receiver<Revision> {
        self.0.store.watch()
    }

    /// Trust domain of agents' identities.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.0.trust_domain
    }

    /// Certificates of the hub's own authorities: two while the CA is rotated.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.0.authorities.set().bundle_pem()
    }

    /// Expiry of the hub's certificates.
    #[must_use]
    pub fn certificate_expiry(&self) -> CertificateExpiry {
        self.0.certificates.expiry()
    }

    /// True if no token was ever created, so that nobody can log in.
    ///
    /// # Errors
    /// `FL-5102`.
    pub async fn is_new(&self) -> Result<bool, Failure> {
        Ok(self.0.store.view().tokens().next().is_none())
    }

    /// Expiry of one of our tokens, past ones included; `None` for any other text.
    #[must_use]
    pub fn token_expiry(&self, token: &SecretString) -> Option<OffsetDateTime> {
        let found = find_token(&self.0.store.view(), token);
        found.map(|token| token.value.expires)
    }

    /// Current time of the hub's clock.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        self.0.clock.now()
    }

    /// True if an admin of all tenants can log in now, with a token of ours or through an issuer.
    #[must_use]
    pub fn has_admin(&self) -> bool {
        let (view, now) = (self.0.store.view(), self.0.clock.now());
        let is_admin = |token: &Token| {
            token.role == Role::Admin && token.tenant.is_none() && token.roles.is_empty()
        };
        let mut tokens = view.tokens();
        self.0.issuers.has_any() || tokens.any(|it| is_admin(&it.value) && it.value.expires > now)
    }

    /// Serves `hub.sock` in the data folder, for operators on this machine, until the process
    /// drains.
    pub fn serve_locally(&self, process: &Process) {
        let (store, clock) = (self.0.store.clone(), self.0.clock.clone());
        let issuers = self.0.issuers.clone();
        local::serve(store, clock, issuers, self.0.data_dir.path(), process);
    }

    /// Leaves the work that one of several hubs must do to the others when this one drains.
    pub fn resign_on_drain(&self, process: &Process) {
        let (store, draining) = (self.0.store.clone(), process.clone());
        process.spawn(async move {
            draining.draining().await;
            store.resign();
        });
    }

    /// Creates a bearer token for the operator that starts the hub (`fairlead dev`, first start).
    ///
    /// # Errors
    /// `FL-4109` for an invalid name or lifetime, `FL-4107` for an unknown tenant, `FL-5102`.
    pub async fn mint_token(&self, create: CreateToken) -> Result<CreatedToken, Failure> {
        Ok(mint(&self.0.store, self.now(), Actor::Hub, create).await?)
    }

    /// As [`Control::mint_token`], for a login on this machine. `hand_over` stores the token before it
    /// becomes valid, so a hub that ends in between creates another one at its next start.
    ///
    /// # Errors
    /// As [`Control::mint_token`], and the error of `hand_over`; no token exists then. `FL-4108` if the condition
    /// does not hold.
    pub async fn mint_token_if(
        &self,
        condition: TokenCondition,
        create: CreateToken,
        hand_over: impl FnOnce(&SecretString) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (store, now) = (&self.0.store, self.now());
        let minted = mint_for(store, now, Actor::Hub, create, condition, hand_over).await;
        minted.map(drop)
    }

    /// Waits for pending changes and closes the store. Call after the gateway has drained.
    pub async fn close(&self) {
        self.0.store.close().await;
    }
}
