//! Desired settings of a cluster's agent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{config::FactCollection, gitops::GitOpsSettings, schema};

/// Settings of an agent; unset fields come from the tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSettings {
    /// Desired version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9.+_-]{1,64}$")]
    pub version: Option<String>,
    /// Collection of facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<FactCollection>,
    /// Targets (`host:port`) for plain TCP, within the site operator's limits. `None` allows all of
    /// those.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::targets)]
    pub allow_connect: Option<Vec<String>>,
    /// GitOps tool, and the agent's SSH key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitops: Option<GitOpsSettings>,
}

impl AgentSettings {
    /// True if no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == AgentSettings::default()
    }
}
