//! What people want of a cluster's agent.

use fairlead_api::config::FactCollection;
use serde::{Deserialize, Serialize};

/// Each field may be left to the tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSettings {
    /// Which version of it should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<FactCollection>,
    /// `host:port` that plain TCP may be opened to, of what the site operator allows. None: all of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_connect: Option<Vec<String>>,
}

impl AgentSettings {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == AgentSettings::default()
    }
}
