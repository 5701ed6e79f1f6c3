//! Place of a secret that the hub makes for a repository: a credential of the tenant, which is a
//! file of `credentials_dir` or a Secret.

use std::fmt::Display;

use fairlead_api::{TenantId, resources::ValueSource};
use fairlead_repositories::GitServerError;
use secrecy::SecretString;

use crate::{credentials::TokenError, server::ProvidedServer};

/// Place of one secret.
pub(crate) struct CredentialPlace<'a> {
    pub(crate) server: &'a ProvidedServer,
    pub(crate) tenant: &'a TenantId,
    /// Name of the credential. People cannot choose it, so it replaces nobody else's.
    pub(crate) name: String,
    /// Kind of the secret, for reasons: `access token`.
    pub(crate) kind: &'static str,
}

impl CredentialPlace<'_> {
    /// The secret; `None` if there is none.
    ///
    /// # Errors
    /// It is unknown whether there is one: a new one in its place would end programs that use it.
    pub(crate) async fn read(&self) -> Result<Option<SecretString>, GitServerError> {
        let reference = ValueSource {
            name: self.name.clone(),
            key: None,
        };
        let read = self.server.tenant_credential(self.tenant, &reference).await;
        match read {
            Ok(secret) => Ok(Some(secret)),
            Err(TokenError::Missing { .. }) => Ok(None),
            Err(error @ TokenError::Unreadable { .. }) => {
                Err(GitServerError::Unavailable(self.reason("reading", &error)))
            }
            Err(error) => Err(GitServerError::Rejected(self.reason("reading", &error))),
        }
    }

    fn reason(&self, action: &str, cause: impl Display) -> String {
        let (server, kind) = (&self.server.name, self.kind);
        format!("{server}: {action} the {kind}: {cause}")
    }

    /// Refuses a stored text that is none of the hub's. It is not replaced: programs may use it.
    pub(crate) fn unusable(&self) -> GitServerError {
        let cause = format!(
            "the credential {:?} has another content; delete it",
            self.name
        );
        GitServerError::Rejected(self.reason("reading", cause))
    }

    /// Refuses settings without a place for secrets.
    pub(crate) fn check(&self) -> Result<(), GitServerError> {
        if self.server.tokens.folder.is_some() || self.server.secrets.is_some() {
            return Ok(());
        }
        Err(GitServerError::Rejected(format!(
            "{}: the {} needs credentials_dir or kubernetes_secrets in the settings of this server",
            self.server.name, self.kind
        )))
    }

    pub(crate) async fn write(&self, text: &SecretString) -> Result<(), GitServerError> {
        let (tenant, name) = (self.tenant, &self.name);
        let written = match &self.server.secrets {
            Some(secrets) => secrets.write_of_tenant(tenant, name, text).await,
            None => self.server.tokens.write_of_tenant(tenant, name, text),
        };
        written.map_err(|error| GitServerError::Rejected(self.reason("storing", error)))
    }
}
