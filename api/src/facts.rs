//! Facts of clusters. An agent reports them with `POST /agent/v1/facts` over its session: only the changes since the last
//! acknowledged report. A hub that does not have that base requests a full report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::{
    ToSchema,
    openapi::schema::{Object, ObjectBuilder, Type},
};

use crate::{ClusterId, TenantId, checked_text::checked_text, hello::Instance};

/// Fact with issuer and public keys (RFC 7517) of the tokens of a cluster's service accounts.
pub const SERVICE_ACCOUNT_KEYS: &str = "serviceAccountKeys";

/// Path to which an agent posts a [`Report`].
pub const FACTS_PATH: &str = "/agent/v1/facts";
/// Path of the search for clusters by their facts.
pub const FIND_PATH: &str = "/v1/find";
/// Limit of a report, in bytes of JSON.
pub const MAX_REPORT_BYTES: usize = 512 * 1024;
/// Limit of facts that the agent of one cluster may report.
pub const MAX_FACTS: usize = 256;
/// Limit of the facts in one import.
pub const MAX_IMPORTED_FACTS: usize = 1024;
/// Limit of one value, in bytes of JSON.
pub const MAX_FACT_BYTES: usize = 64 * 1024;
/// Limit of all values of one cluster's agent together, in bytes of JSON.
pub const MAX_TOTAL_FACT_BYTES: usize = 256 * 1024;
/// Limit of the nesting of lists and objects in a value.
pub const MAX_FACT_DEPTH: usize = 8;
/// Name of the fact that lists incomplete facts with the reasons.
pub const INCOMPLETE_FACT: &str = "incomplete";

/// Body of `POST /agent/v1/facts`. `V` is the type of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<V = Value> {
    /// Identifier of one run of the agent's process.
    pub instance: Instance,
    /// Sequence number within a run; the hub ignores reports that arrive out of order.
    pub sequence: u64,
    /// Seconds until the next report at the latest, even without changes.
    pub interval_seconds: u32,
    /// ETag of the report on which this one builds. `None` is a full report: all other facts are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Changed facts by name; `None` removes a fact.
    pub facts: BTreeMap<FactName, Option<ReportedFact<V>>>,
}

/// One fact in a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedFact<V = Value> {
    /// Value of the fact.
    pub value: V,
    /// Time at which the agent first observed this value, in milliseconds since 1970.
    pub observed: i64,
}

/// Response to a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportReceipt {
    /// ETag of the facts that the hub has now. `None`: the hub does not have the base of the report and has ignored it; a
    /// full report is required.
    pub etag: Option<String>,
}

/// One fact in the response to `GET /v1/clusters/{id}/facts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFact {
    /// Name of the fact.
    pub name: String,
    /// Value of the fact.
    pub value: Value,
    /// True for facts reported by programs, false for facts set by people.
    pub dynamic: bool,
    /// Source of the value.
    pub source: FactSource,
    /// Time at which the hub received this value.
    #[serde(with = "time::serde::rfc3339")]
    pub received: OffsetDateTime,
    /// Time at which the source first observed this value, by its own clock.
    #[serde(with = "time::serde::rfc3339")]
    pub observed: OffsetDateTime,
    /// Time of the last report of the source, changed or not.
    #[serde(with = "time::serde::rfc3339")]
    pub last_reported: OffsetDateTime,
    /// True if the source has missed three reports, so that the value may be outdated.
    pub stale: bool,
}

/// Source of a fact.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
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

/// Body of `POST /v1/clusters/{id}/facts/imported`. Facts that were reported to this hub take precedence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportedFacts {
    /// Facts of another registry, by name.
    #[schema(schema_with = imported_facts)]
    pub facts: BTreeMap<String, Value>,
}

/// Schema of the facts of an import, by name.
fn imported_facts() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .max_properties(Some(MAX_IMPORTED_FACTS))
        .build()
}

/// One version of a fact in its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactHistoryEntry {
    /// Cluster of the fact.
    pub cluster: ClusterId,
    /// Name of the fact.
    pub name: String,
    /// Value from then on; `None` where the fact was removed.
    pub value: Option<Value>,
    /// True for facts reported by programs, false for facts set by people.
    pub dynamic: bool,
    /// Source of the value.
    pub source: FactSource,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Time at which the source first observed the value.
    #[serde(with = "time::serde::rfc3339")]
    pub observed: OffsetDateTime,
}

/// Facts of one cluster in the form of Lieutenant's `Inventory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Inventory {
    /// Id of the cluster.
    pub cluster: String,
    /// Facts by name.
    #[serde(default)]
    pub inventory: BTreeMap<String, Value>,
}

/// One cluster in the response to `GET /v1/find`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterMatch {
    /// Id of the cluster.
    pub id: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// Display name of the cluster.
    pub display_name: String,
    /// Matching facts, at most 20.
    #[schema(inline)]
    pub matches: Vec<FactMatch>,
}

/// A fact that matches a search term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactMatch {
    /// Name of the fact.
    pub fact: String,
    /// Key within the fact that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Matching value.
    pub value: Value,
    /// True if the source of the fact has stopped reporting.
    pub stale: bool,
}

checked_text!(
    /// Name of a fact: 1 to 128 letters, digits, dots, dashes, slashes and underscores.
    FactName,
    FactNameError,
    |text| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'/' | b'_');
        if (1..=128).contains(&text.len()) && text.bytes().all(plain) {
            Ok(text.into())
        } else {
            Err(FactNameError)
        }
    }
);

/// Error of parsing a [`FactName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fact's name is 1 to 128 letters, digits, dots, dashes, slashes and underscores")]
pub struct FactNameError;

/// Nesting of lists and objects; 0 for a scalar.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn report_survives_a_round_trip_and_sends_removals_as_null() {
        let report = Report {
            instance: Instance::from_bytes([1; 16]),
            sequence: 7,
            interval_seconds: 3600,
            base: Some("e1".to_owned()),
            facts: BTreeMap::from([
                ("gone".parse().unwrap(), None),
                (
                    "nodes".parse().unwrap(),
                    Some(ReportedFact {
                        value: json!({ "count": 3 }),
                        observed: 1_000,
                    }),
                ),
            ]),
        };
        let text = serde_json::to_string(&report).unwrap();
        assert!(
            text.contains(r#""gone":null"#) && text.contains(r#""sequence":7"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    fn null_fact_is_a_removal() {
        let text = r#"{"instance":"00000000000000000000000000000001","sequence":1,"intervalSeconds":1,"facts":{"a":null}}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.facts.values().next(), Some(&None));
        assert_eq!(report.base, None);
    }

    #[test]
    fn fact_name_is_validated() {
        let longest = "a".repeat(128);
        for good in ["nodes", "a.b-c_d", "example.com/owner", &longest] {
            assert!(good.parse::<FactName>().is_ok(), "{good}");
        }
        let too_long = "a".repeat(129);
        for bad in ["", "a b", "ä", "a\n", "a=b", &too_long] {
            assert!(bad.parse::<FactName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn depth_counts_lists_and_objects() {
        for (value, deep) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({ "a": [1, { "b": 2 }] }), 3),
        ] {
            assert_eq!(depth(&value), deep, "{value}");
        }
    }
}
