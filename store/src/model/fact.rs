//! Facts: a name, a JSON value, its source and times.

use std::collections::BTreeMap;

use fairlead_api::facts::FactSource;
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
