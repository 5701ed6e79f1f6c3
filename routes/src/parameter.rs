//! Query parameters of routes.

use std::ops::RangeInclusive;

use fairlead_api::{BundleId, ClusterId, TenantId};
use serde_json::{Value, json};

/// Description of one query parameter.
#[derive(Debug, Clone)]
pub struct QueryParameter {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: Value,
}

impl QueryParameter {
    /// A parameter with a JSON schema of its own.
    #[must_use]
    pub fn new(name: &'static str, description: &'static str, schema: Value) -> Self {
        QueryParameter {
            name,
            description,
            schema,
        }
    }

    /// A text that is not empty and has no NUL.
    #[must_use]
    pub fn text(name: &'static str, description: &'static str) -> Self {
        Self::pattern(name, description, r"^[^\x00]+$")
    }

    /// One line of text.
    #[must_use]
    pub fn line(name: &'static str, description: &'static str, max_chars: usize) -> Self {
        let pattern = format!(r"^[^\x00-\x1f\x7f-\x9f]{{1,{max_chars}}}$");
        Self::pattern(name, description, &pattern)
    }

    /// A text that matches a regular expression.
    #[must_use]
    pub fn pattern(name: &'static str, description: &'static str, pattern: &str) -> Self {
        Self::new(
            name,
            description,
            json!({ "type": "string", "pattern": pattern }),
        )
    }

    /// Parameter `cluster`: the id of a cluster.
    #[must_use]
    pub fn cluster(description: &'static str) -> Self {
        Self::pattern("cluster", description, &id_pattern(ClusterId::PREFIX))
    }

    /// Parameter `bundle`: the id of a bundle.
    #[must_use]
    pub fn bundle(description: &'static str) -> Self {
        Self::pattern("bundle", description, &id_pattern(BundleId::PREFIX))
    }

    /// Parameter `tenant`: the id of a tenant.
    #[must_use]
    pub fn tenant(description: &'static str) -> Self {
        Self::pattern("tenant", description, &id_pattern(TenantId::PREFIX))
    }

    /// `true` or `false`; false by default.
    #[must_use]
    pub fn flag(name: &'static str, description: &'static str) -> Self {
        Self::new(name, description, json!({ "type": "boolean" }))
    }

    /// An integer of a range.
    #[must_use]
    pub fn integer(
        name: &'static str,
        description: &'static str,
        range: RangeInclusive<u64>,
    ) -> Self {
        let (minimum, maximum) = range.into_inner();
        let schema = json!({ "type": "integer", "minimum": minimum, "maximum": maximum });
        Self::new(name, description, schema)
    }

    /// One of these texts.
    #[must_use]
    pub fn choice(name: &'static str, description: &'static str, choices: &[&str]) -> Self {
        Self::new(
            name,
            description,
            json!({ "type": "string", "enum": choices }),
        )
    }

    /// A time of RFC 3339.
    #[must_use]
    pub fn time(name: &'static str, description: &'static str) -> Self {
        let schema = json!({ "type": "string", "format": "date-time" });
        Self::new(name, description, schema)
    }
}

fn id_pattern(prefix: &str) -> String {
    format!("^{prefix}[a-z0-9]([-a-z0-9]{{0,59}}[a-z0-9])?$")
}
