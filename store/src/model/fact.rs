//! Facts: a name, any JSON value, who said it and when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// By name.
pub type Facts = BTreeMap<String, Fact>;

/// One fact as it is now. That an unchanged one was reported again is kept beside it, for all of a source at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub value: Value,
    pub source: FactSource,
    /// When it became known here, in milliseconds since 1970.
    pub received: i64,
    /// When it was seen to be so where it is from, in milliseconds since 1970.
    pub observed: i64,
}

/// Who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactSource {
    /// Somebody by the API.
    People,
    /// Fairlead's agent, over its own session.
    Agent,
    /// Project Syn's Steward, or another program with the cluster's own token.
    Steward,
    /// `POST /inventory`
    Inventory,
    /// Another registry was told so, by `fairlead import`; nobody has reported it here yet.
    Import,
}

impl FactSource {
    /// As it is written.
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
