//! Functions of other modules that the registry needs; each module implements one trait.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::{
    ClusterId, Code,
    delivery::PlanHash,
    resources::{JoinInfo, VaultAccess},
};
use fairlead_seam::{AuthenticateError, Caller, Subject};
use fairlead_store::{
    Draft, Record, View,
    model::{
        Cluster, ClusterTemplate, GeneratedKey, RepoAccessToken, RepoDrift, RepoPhase, Tenant,
    },
};
use secrecy::SecretString;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::broadcast;

use crate::error::RegistryError;

/// Implementations chosen where the hub is wired.
pub struct Services {
    /// External issuers of tokens.
    pub issuers: Arc<dyn TokenVerifier>,
    /// Issuer of join strings and install URLs.
    pub invitations: Arc<dyn Invitations>,
    /// Encryption of secrets in documents.
    pub sealer: Arc<dyn Sealer>,
    /// Status of Git repositories.
    pub repositories: Arc<dyn RepoStatus>,
    /// Access of clusters to Vault.
    pub vault: Arc<dyn VaultStatus>,
    /// Desired configurations of agents.
    pub configurations: Arc<dyn DesiredConfigs>,
    /// Bundles that clusters would lose.
    pub deliveries: Arc<dyn UntargetCheck>,
    /// Desired deliveries of clusters.
    pub desired_deliveries: Arc<dyn DesiredDeliveries>,
}

/// Checks changes of clusters for bundles that they would lose.
pub trait UntargetCheck: Send + Sync {
    /// Checks a draft against the registry without its change, and writes the tombstones of confirmed removals.
    ///
    /// `confirm` is the name of the removals that the caller has confirmed.
    ///
    /// # Errors
    /// `FL-6105` with the list of removals unless they are confirmed.
    fn check(
        &self,
        before: &View,
        draft: &mut Draft,
        clusters: &[ClusterId],
        principal: &Caller,
        confirm: Option<&PlanHash>,
    ) -> Result<(), RegistryError>;
}

/// Verifies tokens of external issuers.
#[async_trait]
pub trait TokenVerifier: Send + Sync {
    /// True if an issuer can produce this name for a caller, so that no token of the hub may have it.
    fn reserves(&self, name: &str) -> bool;

    /// True if an issuer with this URL is configured; callers of all others are void.
    fn knows(&self, issuer: &str) -> bool;

    /// Digest of the rules of an issuer whose tokens are exchanged; `None` for all others.
    fn exchange_rules(&self, issuer: &str) -> Option<String>;

    /// The caller of a token.
    ///
    /// # Errors
    /// [`AuthenticateError`]: the token is invalid or cannot be checked now.
    async fn verify(
        &self,
        token: &SecretString,
        from: IpAddr,
        now: OffsetDateTime,
    ) -> Result<Verified, AuthenticateError>;
}

/// A token checked by the issuers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// A caller with a role.
    Caller(Caller),
    /// The token is valid, and no rule gives its person a role.
    NoRole(NoRole),
    /// No issuer is responsible for the token.
    Unknown,
}

/// A person or program of an issuer without a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRole {
    /// Reason for the refusal.
    pub cause: String,
    /// The person as its issuer names it, if the token tells.
    pub subject: Option<Subject>,
    /// End of the token; `None` for a reviewed one.
    pub credential_ends: Option<OffsetDateTime>,
}

/// Issues the material with which an agent enrols.
pub trait Invitations: Send + Sync {
    /// Join string and install URLs for the cluster's current bootstrap token.
    ///
    /// # Errors
    /// [`RegistryError::Internal`]
    fn invitation(&self, cluster: &Cluster) -> Result<JoinInfo, RegistryError>;

    /// Steward's install URL alone: lists contain it for every cluster.
    fn install_url(&self, cluster: &Cluster) -> SecretString;
}

/// Status of the repositories of tenants and clusters.
pub trait RepoStatus: Send + Sync {
    /// `None` without a repository.
    fn of_tenant<'a>(&self, tenant: &'a Tenant) -> Option<ShownRepoState<'a>>;

    /// `None` without a repository, of its own or by the tenant's template.
    fn of_cluster<'a>(
        &self,
        cluster: &'a Cluster,
        template: Option<&ClusterTemplate>,
    ) -> Option<ShownRepoState<'a>>;
}

/// Access of clusters to Vault.
pub trait VaultStatus: Send + Sync {
    /// `None` if the hub manages none. It depends on the cluster's record alone.
    fn of_cluster(&self, cluster: &Cluster) -> Option<VaultAccess>;
}

/// Encrypts secrets of documents for the store.
pub trait Sealer: Send + Sync {
    /// Encrypted form of a text, the same for the same name and text; `None` if that fails.
    fn seal(&self, name: &str, text: &str) -> Option<String>;
}

/// Desired configurations of agents, by revision.
pub trait DesiredConfigs: Send + Sync {
    /// Revision of the configuration that the cluster's agent should apply.
    fn revision(&self, view: &View, cluster: &Record<Cluster>) -> Arc<str>;

    /// Notified of clusters with a changed desired configuration.
    fn changed(&self) -> broadcast::Receiver<ClusterId>;
}

/// Desired deliveries of clusters, by ETag.
pub trait DesiredDeliveries: Send + Sync {
    /// ETag of the desired state; `None` before it was computed.
    fn etag(&self, cluster: &ClusterId) -> Option<Arc<str>>;

    /// Notified of clusters with changed desired deliveries.
    fn changed(&self) -> broadcast::Receiver<ClusterId>;
}

/// Status as shown by the API.
#[derive(Debug, PartialEq, Serialize)]
pub struct ShownRepoState<'a> {
    /// Phase of the repository.
    pub phase: RepoPhase,
    /// Reason for the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// Code of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    /// Start of the phase.
    pub since: Option<OffsetDateTime>,
    #[serde(
        rename = "lastTry",
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    /// Last recorded try.
    pub last_try: Option<OffsetDateTime>,
    /// Last corrected difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<&'a RepoDrift>,
    /// Access token of the repository.
    #[serde(rename = "accessToken", skip_serializing_if = "Option::is_none")]
    pub access_token: Option<&'a RepoAccessToken>,
    /// Public halves of the generated deploy keys, by name.
    #[serde(rename = "generatedKeys", skip_serializing_if = "Option::is_none")]
    pub generated_keys: Option<&'a BTreeMap<String, GeneratedKey>>,
}

impl ShownRepoState<'_> {
    /// An unknown phase, with its reason.
    #[must_use]
    pub fn unknown(reason: &'static str) -> Self {
        ShownRepoState {
            phase: RepoPhase::Unknown,
            reason: Some(reason.into()),
            code: None,
            since: None,
            last_try: None,
            drift: None,
            access_token: None,
            generated_keys: None,
        }
    }
}
