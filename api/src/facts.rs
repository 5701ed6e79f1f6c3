//! Facts: what an agent reports of its cluster, `POST /agent/v1/facts` over its own session. Only what has changed is sent,
//! on the base of what the hub has acknowledged; where the two do not agree, the hub asks for the whole.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use crate::{ClusterId, TenantId, hello::Instance};

/// Where an agent posts a [`Report`].
pub const FACTS_PATH: &str = "/agent/v1/facts";
/// Where people search clusters by their facts.
pub const FIND_PATH: &str = "/v1/find";
/// The largest report that is taken, in bytes of JSON.
pub const MAX_REPORT_BYTES: usize = 512 * 1024;
/// How many facts one cluster's agent may report.
pub const MAX_FACTS: usize = 256;
/// The largest value, in bytes of JSON.
pub const MAX_FACT_BYTES: usize = 64 * 1024;
/// All values of one cluster's agent together, in bytes of JSON.
pub const MAX_TOTAL_FACT_BYTES: usize = 256 * 1024;
/// How deep lists and objects of a value may lie in each other.
pub const MAX_FACT_DEPTH: usize = 8;
/// The fact that says of which other facts something is missing, and why.
pub const INCOMPLETE_FACT: &str = "incomplete";

/// Body of `POST /agent/v1/facts`. `V` is what stands for JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<V = Value> {
    /// One run of the agent's process, and no other.
    pub instance: Instance,
    /// Rises with every report of a run: an older one that arrives late is told from a newer one.
    pub sequence: u64,
    /// The next report comes within so many seconds, even if nothing changes.
    pub interval_seconds: u32,
    /// What the hub called that on which this report builds. None: these are all facts, and others are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// By name. None: it is no more.
    pub facts: BTreeMap<FactName, Option<ReportedFact<V>>>,
}

/// One fact as its agent tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedFact<V = Value> {
    pub value: V,
    /// Since when it is seen to be so, in milliseconds since 1970.
    pub observed: i64,
}

/// Answer to a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportReceipt {
    /// Names what the hub now knows. None: it does not know what the report builds on, and nothing was taken; the whole is
    /// to be sent.
    pub etag: Option<String>,
}

/// One fact as `GET /v1/clusters/{id}/facts` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFact {
    pub name: String,
    pub value: Value,
    /// Seen by a program in the cluster, not said by people.
    pub dynamic: bool,
    /// `people`, `agent`, `steward`, `inventory` or `import`.
    pub source: String,
    /// When it became known to the hub.
    #[serde(with = "time::serde::rfc3339")]
    pub received: OffsetDateTime,
    /// Since when it is seen to be so, by the clock of its source.
    #[serde(with = "time::serde::rfc3339")]
    pub observed: OffsetDateTime,
    /// When its source last reported, whether or not this was new.
    #[serde(with = "time::serde::rfc3339")]
    pub last_reported: OffsetDateTime,
    /// Three reports of its source have not come: it may be so no more.
    pub stale: bool,
}

/// A fact as it was from `at` on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactHistoryEntry {
    pub cluster: ClusterId,
    pub name: String,
    /// None: it was no more.
    pub value: Option<Value>,
    pub dynamic: bool,
    pub source: String,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub observed: OffsetDateTime,
}

/// Lieutenant's `Inventory`: facts of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    pub cluster: String,
    #[serde(default)]
    pub inventory: BTreeMap<String, Value>,
}

/// A cluster that `GET /v1/find` has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterMatch {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    /// What says so, 20 facts at the most.
    pub matches: Vec<FactMatch>,
}

/// A fact that answers a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactMatch {
    pub fact: String,
    /// The part of it that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub value: Value,
    pub stale: bool,
}

/// 1 to 128 letters, digits, dots, dashes, slashes and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FactName(Arc<str>);

/// The text names no fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fact's name is 1 to 128 letters, digits, dots, dashes, slashes and underscores")]
pub struct FactNameError;

impl FactName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FactName {
    type Err = FactNameError;
    fn from_str(text: &str) -> Result<Self, FactNameError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'/' | b'_');
        if (1..=128).contains(&text.len()) && text.bytes().all(plain) {
            Ok(FactName(text.into()))
        } else {
            Err(FactNameError)
        }
    }
}

impl TryFrom<String> for FactName {
    type Error = FactNameError;
    fn try_from(text: String) -> Result<Self, FactNameError> {
        text.parse()
    }
}

impl From<FactName> for String {
    fn from(name: FactName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for FactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How deep lists and objects lie in each other; 0 for what is neither.
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
    fn a_report_reads_back_and_says_removal_as_null() {
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
    fn a_fact_of_null_is_a_removal_and_not_a_value() {
        let text = r#"{"instance":"00000000000000000000000000000001","sequence":1,"intervalSeconds":1,"facts":{"a":null}}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.facts.values().next(), Some(&None));
        assert_eq!(report.base, None);
    }

    #[test]
    fn names_are_plain() {
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
