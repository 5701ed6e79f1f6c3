//! Values of CI variables: opened by the hub, or credentials of the tenant. A tenant reads its own
//! credentials alone, since its CI may print them.

use fairlead_api::TenantId;
use fairlead_repositories::{GitServerError, RepoSecrets, VariableSource};
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
    /// [`GitServerError::Rejected`] with the variable's name.
    pub(crate) async fn of(
        &self,
        name: &str,
        source: &VariableSource,
    ) -> Result<SecretString, GitServerError> {
        let opened = self.secrets.values.get(name).cloned();
        let rejected =
            |cause: String| GitServerError::Rejected(format!("the CI variable {name}: {cause}"));
        match source {
            VariableSource::Text(text) => Ok(text.clone().into()),
            _ if opened.is_some() => Ok(opened.unwrap_or_default()),
            VariableSource::None => Err(rejected("it has no value; set value or valueFrom".to_owned())),
            VariableSource::Sealed(_) => Err(rejected(
                "its value was encrypted with another key of the hub, as before a restore; set it again".to_owned(),
            )),
            VariableSource::Credential(reference) => {
                let read = self.server.tenant_credential(self.tenant, reference).await;
                read.map_err(|error| rejected(error.to_string()))
            }
        }
    }
}
