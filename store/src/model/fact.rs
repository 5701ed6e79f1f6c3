//! Facts: a name, a JSON value, its source and times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Facts by name.
pub type Facts = BTreeMap<String, Fact>;

/// Current version of a fact. Reports of unchanged facts are recorded per source, outside of this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The value.
    pub value: Value,
    /// Source of the value.
    pub source: FactSource,
    /// Time of arrival at this hub, in milliseconds since 1970.
    pub received: i64,
    /// Time of observation at its source, in milliseconds since 1970.
    pub observed: i64,
}

/// Source of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactSource {
    /// A caller of the API.
    People,
    /// Fairlead's agent, over its own session.
    Agent,
    /// Project Syn's Steward, or another program with the cluster's own token.
    Steward,
    /// `POST /inventory`
    Inventory,
    /// `fairlead import` from another registry; not confirmed by a report to this hub yet.
    Import,
}

impl FactSource {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            FactSource::People => "people",
            FactSource::Agent => "agent",
            FactSource::Steward => "steward",
            FactSource::Inventory => "inventory",
            FactSource::Import => "import",
        }
    }
}
