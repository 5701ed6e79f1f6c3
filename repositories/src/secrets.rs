//! Secrets for one call of a Git server. No record, hash or log contains them.

use std::collections::BTreeMap;

use secrecy::SecretString;

/// Secrets that the hub opens for one call.
#[derive(Debug, Clone, Default)]
pub struct RepoSecrets {
    /// Token of the server's API, if the hub's store has the one of the record's reference.
    pub api_token: Option<SecretString>,
    /// Values of CI variables by name. A missing value cannot be opened.
    pub values: BTreeMap<String, SecretString>,
}
