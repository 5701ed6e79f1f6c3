//! One Git server behind the seam: its settings, its provider, and the path of a repository.

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::{
    TenantId,
    resources::{Credentials, ValueSource},
};
use fairlead_repositories::{
    DesiredRepo, GitServer, GitServerError, KnownRepo, MergeRequestFilter, OpenMergeRequest,
    RepoSecrets, ReportedRepo, RetiredRepo,
};
use http::Method;
use reqwest::Client;
use secrecy::SecretString;
use tokio::sync::OnceCell;
use tracing::info;
use url::Url;

use crate::{
    address::{CloneAddress, RepoPath},
    api_calls::{ApiCalls, ApiRequest, CallError, RateLimit, TokenHeader},
    credentials::{TokenError, TokenFiles},
    detect::{ProviderKind, detect},
    groups::TenantGroups,
    host_keys,
    kubernetes_secrets::KubernetesSecrets,
    merge_requests,
    provider::Provider,
    providers::{gitea::Gitea, github::GitHub, gitlab::GitLab},
    reconcile::{Reconciler, RepoWish, server_error},
    variable_values::VariableValues,
};

/// A Git server with its settings.
pub struct ProvidedServer {
    pub(crate) name: String,
    pub(crate) endpoint: Url,
    pub(crate) address: CloneAddress,
    pub(crate) http: Client,
    pub(crate) tokens: TokenFiles,
    /// Set if references name Secrets of the hub's own cluster.
    pub(crate) secrets: Option<KubernetesSecrets>,
    pub(crate) host_keys: Option<String>,
    pub(crate) creates_groups: bool,
    pub(crate) groups: TenantGroups,
    /// Set at once if the settings name the provider.
    pub(crate) kind: OnceCell<ProviderKind>,
    pub(crate) limit: Arc<RateLimit>,
}

impl ProvidedServer {
    /// Name in the settings, and address.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.endpoint)
    }

    /// Finds the provider, and tries the server's own token if there is one. Changes nothing.
    ///
    /// # Errors
    /// The server is away, is no Git server, or does not accept the token.
    pub async fn check(&self) -> Result<String, GitServerError> {
        let kind = self.kind().await?;
        let failed = |error| server_error(&self.name, "reading the own user", error);
        let Ok(token) = self.tokens.read(None) else {
            // The provider of the settings was not asked yet.
            let found = detect(|kind| self.calls(kind, None), &self.endpoint).await;
            found.map_err(failed)?;
            return Ok(format!("{kind:?}; its tokens belong to repositories"));
        };
        let calls = self.calls(kind, Some(token));
        match calls.call(ApiRequest::new(Method::GET, &["user"])).await {
            Ok(_) => Ok(format!("{kind:?} accepts the token")),
            // Tokens of groups and of apps have no user.
            Err(CallError::Missing | CallError::Forbidden(_)) => {
                Ok(format!("{kind:?} answers; the token has no user"))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn path_of(&self, desired: &DesiredRepo) -> Option<RepoPath> {
        match &desired.url {
            Some(url) => self.address.path_of(url),
            None => {
                let name = desired.name.as_deref();
                let name = name.unwrap_or(desired.owner.as_str());
                RepoPath::new(desired.path.as_deref()?.trim_matches('/'), name)
            }
        }
    }

    async fn kind(&self) -> Result<ProviderKind, GitServerError> {
        let found = self.kind.get_or_try_init(async || {
            let found = detect(|kind| self.calls(kind, None), &self.endpoint).await;
            let found =
                found.map_err(|error| server_error(&self.name, "finding the provider", error))?;
            let kind = found.ok_or_else(|| {
                let name = &self.name;
                let cause = format!("{name}: the endpoint is neither GitLab nor GitHub, Gitea or Forgejo; check endpoint and provider in the hub's settings");
                GitServerError::Rejected(cause)
            })?;
            info!(server = self.name, provider = ?kind, "provider of a git server found");
            Ok(kind)
        });
        found.await.copied()
    }

    fn calls(&self, kind: ProviderKind, token: Option<SecretString>) -> ApiCalls {
        let (header, accept) = match kind {
            ProviderKind::GitLab => (TokenHeader::Private, "application/json"),
            ProviderKind::Gitea => (TokenHeader::Authorization("token"), "application/json"),
            ProviderKind::GitHub => (
                TokenHeader::Authorization("Bearer"),
                "application/vnd.github+json",
            ),
        };
        ApiCalls {
            http: self.http.clone(),
            base: kind.api(&self.endpoint),
            token: token.map(|token| (header, token)),
            accept,
            limit: Arc::clone(&self.limit),
        }
    }

    async fn provider(
        &self,
        secret: Option<&Credentials>,
        secrets: &RepoSecrets,
    ) -> Result<Box<dyn Provider>, GitServerError> {
        if let Some(token) = secrets.api_token.clone() {
            return self.provider_with(token).await;
        }
        let rejected = |error| GitServerError::Rejected(format!("{}: {error}", self.name));
        let token = match (&self.secrets, secret) {
            (Some(secrets), Some(reference)) => secrets.read(reference).await,
            (_, secret) => self.tokens.read(secret),
        };
        self.provider_with(token.map_err(rejected)?).await
    }

    async fn provider_with(
        &self,
        token: SecretString,
    ) -> Result<Box<dyn Provider>, GitServerError> {
        let kind = self.kind().await?;
        let calls = self.calls(kind, Some(token));
        Ok(match kind {
            ProviderKind::GitLab => Box::new(GitLab(calls)),
            ProviderKind::GitHub => Box::new(GitHub(calls)),
            ProviderKind::Gitea => Box::new(Gitea(calls)),
        })
    }

    /// A credential of a tenant.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) async fn tenant_credential(
        &self,
        tenant: &TenantId,
        reference: &ValueSource,
    ) -> Result<SecretString, TokenError> {
        match &self.secrets {
            Some(secrets) => secrets.read_of_tenant(tenant, reference).await,
            None => self.tokens.read_of_tenant(tenant, reference),
        }
    }

    /// Path and provider of a repository that the hub has provided for its owner.
    async fn own_repo(
        &self,
        desired: &DesiredRepo,
        secrets: &RepoSecrets,
    ) -> Result<(RepoPath, Box<dyn Provider>), GitServerError> {
        let rejected = || GitServerError::Rejected("the repository has no valid path".to_owned());
        let path = self.path_of(desired).ok_or_else(rejected)?;
        self.groups.check(&self.name, &desired.tenant, &path)?;
        let reference = desired.api_secret.as_ref();
        let provider = self.provider(reference, secrets).await?;
        let reconciler = self.reconciler(provider.as_ref());
        reconciler.check_own(&path, &desired.owner).await?;
        Ok((path, provider))
    }

    fn reconciler<'a>(&'a self, provider: &'a dyn Provider) -> Reconciler<'a> {
        Reconciler {
            provider,
            server: &self.name,
            creates_groups: self.creates_groups,
        }
    }
}

#[async_trait]
impl GitServer for ProvidedServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn url_of(&self, desired: &DesiredRepo) -> Option<String> {
        Some(self.address.url(&self.path_of(desired)?.lower_case()))
    }

    fn canonical_url(&self, url: &str) -> Option<String> {
        Some(self.address.url(&self.address.path_of(url)?.lower_case()))
    }

    fn given_host_keys(&self) -> Option<&str> {
        self.host_keys.as_deref()
    }

    async fn scan_host_keys(&self) -> Result<String, GitServerError> {
        let (host, port) = (&self.address.ssh_host, self.address.ssh_port.unwrap_or(22));
        host_keys::scan(host, port).await.map_err(|error| {
            let cause = format!("{}: reading host keys of {host}:{port}: {error}", self.name);
            GitServerError::Unavailable(cause)
        })
    }

    async fn ensure(
        &self,
        desired: &DesiredRepo,
        known: &KnownRepo,
        secrets: &RepoSecrets,
    ) -> Result<ReportedRepo, GitServerError> {
        let rejected = || GitServerError::Rejected("the repository has no valid path".to_owned());
        let path = self.path_of(desired).ok_or_else(rejected)?;
        self.groups.check(&self.name, &desired.tenant, &path)?;
        let before = known.url.as_deref();
        let before = before.and_then(|url| self.address.path_of(url));
        let is_known = before.is_some_and(|before| before.is(&path));
        let reference = desired.api_secret.as_ref();
        let provider = self.provider(reference, secrets).await?;
        let reconciler = self.reconciler(provider.as_ref());
        let values = VariableValues {
            server: self,
            tenant: &desired.tenant,
            secrets,
        };
        let wish = RepoWish {
            path: &path,
            desired,
            known,
            is_known,
            values,
        };
        let done = reconciler.ensure(&wish).await?;
        let url = desired.url.clone();
        Ok(ReportedRepo {
            url: url.unwrap_or_else(|| self.address.url(&path)),
            host_keys: self.host_keys.clone(),
            deploy_keys: done.deploy_keys,
            generated_keys: done.generated_keys,
            files: done.files,
            ci_variables: done.ci_variables,
            access_token: done.access_token,
            corrected: done.corrected,
            unmet: done.unmet,
        })
    }

    async fn retire(
        &self,
        retired: &RetiredRepo,
        secrets: &RepoSecrets,
    ) -> Result<(), GitServerError> {
        let rejected = || GitServerError::Rejected("the repository has no valid path".to_owned());
        let path = self.address.path_of(&retired.url).ok_or_else(rejected)?;
        let reference = retired.api_secret.as_ref();
        let provider = self.provider(reference, secrets).await?;
        let reconciler = self.reconciler(provider.as_ref());
        reconciler.retire(&path, retired).await
    }

    async fn merge_requests(
        &self,
        desired: &DesiredRepo,
        secrets: &RepoSecrets,
        filter: &MergeRequestFilter,
    ) -> Result<Vec<OpenMergeRequest>, GitServerError> {
        let (path, provider) = self.own_repo(desired, secrets).await?;
        merge_requests::list(provider.as_ref(), &self.name, &path, filter).await
    }

    async fn merge(
        &self,
        desired: &DesiredRepo,
        secrets: &RepoSecrets,
        number: u64,
        head: Option<&str>,
    ) -> Result<(), GitServerError> {
        let (path, provider) = self.own_repo(desired, secrets).await?;
        merge_requests::merge(provider.as_ref(), &self.name, &path, (number, head)).await
    }
}
