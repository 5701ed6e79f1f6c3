//! Learned hubs in the store of the identity, as a document of its own: the identity is written by renewals, and this by
//! changes of the list. The hubs of another join string are ignored.

use fairlead_api::HubUrl;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{JoinFingerprint, error::IdentityStoreError};

/// Learned hubs, and the join string that leads to their installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredHubs {
    pub(crate) join: JoinFingerprint,
    pub(crate) hubs: Vec<HubUrl>,
}

impl StoredHubs {
    /// Stored form, in JSON.
    pub(crate) fn to_json(&self) -> Result<SecretString, IdentityStoreError> {
        let json = serde_json::to_string_pretty(self);
        json.map(Into::into)
            .map_err(|_| IdentityStoreError::Damaged("list of hubs".to_owned()))
    }

    /// Parses the stored form; `None` if it is damaged: the agent learns the hubs again.
    pub(crate) fn from_json(text: &SecretString) -> Option<Self> {
        serde_json::from_str(text.expose_secret()).ok()
    }
}
