//! Values of CI variables: opened by the hub, or credentials of the tenant. A tenant reads its own
//! credentials alone, since its CI may print them.

use fairlead_api::TenantId;
use fairlead_repositories::{RepoSecrets, VariableSource};
use secrecy::SecretString;

use crate::server::ProvidedServer;

/// Values for the variables of one repository.
pub(crate) struct VariableValues<'a> {
    pub(crate) server: &'a ProvidedServer,
    pub(crate) tenant: &'a TenantId,
    pub(crate) secrets: &'a RepoSecrets,
}

impl VariableValues<'_> {
    /// Value of a variable.
    ///
    /// # Errors
    /// The cause, for people.
    pub(crate) async fn of(
        &self,
        name: &str,
        source: &VariableSource,
    ) -> Result<SecretString, String> {
        let opened = self.secrets.values.get(name).cloned();
        match source {
            VariableSource::Text(text) => Ok(text.clone().into()),
            _ if opened.is_some() => Ok(opened.unwrap_or_default()),
            VariableSource::None => Err("it has no value; set value or valueFrom".to_owned()),
            VariableSource::Sealed(_) => Err(
                "its value was encrypted with another key of the hub, as before a restore; set it again".to_owned(),
            ),
            VariableSource::Credential(reference) => {
                let read = self.server.tenant_credential(self.tenant, reference).await;
                read.map_err(|error| error.to_string())
            }
        }
    }
}
