//! Place of the access token that the hub makes for a repository: a credential of the tenant,
//! which is a file of `credentials_dir` or a Secret.

use fairlead_api::{TenantId, resources::ValueSource};
use fairlead_repositories::{GitServerError, RepoOwner};
use secrecy::SecretString;

use crate::server::ProvidedServer;

/// Place of one token.
pub(crate) struct CredentialPlace<'a> {
    pub(crate) server: &'a ProvidedServer,
    pub(crate) tenant: &'a TenantId,
    pub(crate) owner: &'a RepoOwner,
}

impl CredentialPlace<'_> {
    /// Name of the credential. People cannot choose it, so it replaces nobody else's.
    fn name(&self) -> String {
        fairlead_repositories::access_token_name(self.owner)
    }

    /// True if the credential can be read.
    pub(crate) async fn has(&self) -> bool {
        let reference = ValueSource {
            name: self.name(),
            key: None,
        };
        let read = self.server.tenant_credential(self.tenant, &reference).await;
        read.is_ok()
    }

    /// Refuses settings without a place for tokens.
    pub(crate) fn check(&self) -> Result<(), GitServerError> {
        if self.server.tokens.folder.is_some() || self.server.secrets.is_some() {
            return Ok(());
        }
        Err(GitServerError::Rejected(format!(
            "{}: an access token needs credentials_dir or kubernetes_secrets in the settings of this server",
            self.server.name
        )))
    }

    pub(crate) async fn write(&self, text: &SecretString) -> Result<(), GitServerError> {
        let (tenant, name) = (self.tenant, self.name());
        let written = match &self.server.secrets {
            Some(secrets) => secrets.write_of_tenant(tenant, &name, text).await,
            None => self.server.tokens.write_of_tenant(tenant, &name, text),
        };
        written.map_err(|error| {
            let server = &self.server.name;
            GitServerError::Rejected(format!("{server}: storing the access token: {error}"))
        })
    }
}
