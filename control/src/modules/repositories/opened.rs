//! Secrets of the store, opened for one call of a Git server.

use fairlead_registry::git_credential_of;
use fairlead_repositories::{DesiredRepo, GitServerError, RepoSecrets, VariableSource};
use fairlead_store::model::{GitCredential, RetiredRepository};
use secrecy::SecretString;

use super::Repositories;

/// Name under which a credential is encrypted. Names of CI variables contain no space.
pub(super) fn sealed_name(id: &str) -> String {
    format!("git credential {id}")
}

/// Values of a repository's variables, and the token of its stored credential.
///
/// # Errors
/// [`GitServerError::Rejected`] for a credential that cannot be opened.
pub(super) fn secrets_of(
    repositories: &Repositories,
    desired: &DesiredRepo,
) -> Result<RepoSecrets, GitServerError> {
    let secrets = &repositories.secrets;
    let values = desired.ci_variables.iter().filter_map(|(name, variable)| {
        let VariableSource::Sealed(sealed) = &variable.source else {
            return None;
        };
        Some((name.clone(), secrets.open(name, sealed)?))
    });
    let view = repositories.store.view();
    let reference = desired.api_secret.as_ref();
    let stored = reference.and_then(|it| git_credential_of(&view, Some(&desired.tenant), it));
    let token = stored.map(|it| open(repositories, &it.id, &it.sealed));
    Ok(RepoSecrets {
        api_token: token.transpose()?,
        values: values.collect(),
    })
}

/// Token for the repository of a deleted owner: that of today's credential, else the one at the deletion.
///
/// # Errors
/// As [`secrets_of`].
pub(super) fn secrets_of_retired(
    repositories: &Repositories,
    retired: &RetiredRepository,
) -> Result<RepoSecrets, GitServerError> {
    let Some(reference) = &retired.api_secret_ref else {
        return Ok(RepoSecrets::default());
    };
    let tenant = retired.tenant.as_ref();
    let view = repositories.store.view();
    let sealed = match &retired.sealed_token {
        Some(sealed) => {
            let id = GitCredential::id_of(tenant, &reference.name);
            let today = view.git_credential(&id);
            let today = today.map(|it| it.value.sealed.clone());
            Some((id, today.unwrap_or_else(|| sealed.clone())))
        }
        None => {
            git_credential_of(&view, tenant, reference).map(|it| (it.id.clone(), it.sealed.clone()))
        }
    };
    let token = sealed.map(|(id, sealed)| open(repositories, &id, &sealed));
    Ok(RepoSecrets {
        api_token: token.transpose()?,
        ..RepoSecrets::default()
    })
}

fn open(
    repositories: &Repositories,
    id: &str,
    sealed: &str,
) -> Result<SecretString, GitServerError> {
    let opened = repositories.secrets.open(&sealed_name(id), sealed);
    opened.ok_or_else(|| {
        GitServerError::Rejected(format!(
            "the credential {id} was encrypted with another key of the hub, as before a restore; set it again"
        ))
    })
}
