//! Past states: the change log, from which a consumer can resume, and the history of facts. Both
//! have a retention time and are trimmed in slices.

use std::time::Duration;

use fairlead_api::{ClusterId, TenantId, resources::Operation};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{audience::Audience, model::FactSource, record::Kind, revision::Revision};

/// Maximum number of lines or versions per page.
pub const MAX_PAGE: u32 = 10_000;

/// One resource touched by one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub struct Change {
    /// Revision of the change.
    #[schema(value_type = u64)]
    pub revision: Revision,
    /// Index of the resource within the change, from 0.
    pub part: u32,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// A caller's name, `agent:<cluster>`, or `system:hub`.
    pub actor: String,
    /// Id of the API token used for the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_token: Option<String>,
    /// Kind of the resource.
    pub kind: Kind,
    /// Id of the resource.
    pub id: String,
    /// Tenant of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Operation on the resource.
    pub operation: Operation,
    /// Previous values; for an update only those that differ. A secret appears only as a
    /// placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// New values, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Tenants that could see the change. `None` for a line written by a previous version. Internal
    /// to the registry.
    #[serde(skip)]
    #[schema(ignore)]
    pub audience: Option<Audience>,
}

/// A position in the log, before this line of this change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// Revision of the change.
    pub revision: Revision,
    /// Index of the line.
    pub part: u32,
}

impl From<Revision> for LogPlace {
    /// Before the first line of that change.
    fn from(revision: Revision) -> Self {
        LogPlace { revision, part: 0 }
    }
}

impl From<&Change> for LogPlace {
    fn from(line: &Change) -> Self {
        LogPlace {
            revision: line.revision,
            part: line.part,
        }
    }
}

/// Complete changes, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// Lines of the log.
    pub changes: Vec<Change>,
    /// Every change up to here is included: the next `since`.
    pub revision: Revision,
}

/// Filter of log lines; matches everything by default.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Kind and id of the resource.
    pub thing: Option<(Kind, String)>,
    /// Tenant of the resource or an ancestor of it, before or after the change.
    pub tenant: Option<TenantId>,
    /// Name of the actor.
    pub actor: Option<String>,
    /// Tenant with members able to see the change, before or after. Lines of a previous version lack
    /// this and always match.
    pub seen_by: Option<TenantId>,
}

/// One version of a fact, valid from `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactVersion {
    /// Id of the cluster.
    pub cluster: ClusterId,
    /// Name of the fact.
    pub name: String,
    /// True for a fact reported by a program, false for one set by people.
    pub dynamic: bool,
    /// In milliseconds since 1970.
    pub at: i64,
    /// Revision of the change.
    pub revision: Revision,
    /// Source of the value.
    pub source: FactSource,
    /// In milliseconds since 1970.
    pub observed: i64,
    /// `None` if the fact was removed.
    #[serde(default)]
    pub value: Option<Value>,
}

/// A position in the versions of one fact, newest first: after this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactPlace {
    /// In milliseconds since 1970.
    pub at: i64,
    /// Id of the cluster.
    pub cluster: ClusterId,
    /// True for a fact reported by a program.
    pub dynamic: bool,
    /// Revision of the change.
    pub revision: Revision,
}

impl From<&FactVersion> for FactPlace {
    fn from(version: &FactVersion) -> Self {
        FactPlace {
            at: version.at,
            cluster: version.cluster.clone(),
            dynamic: version.dynamic,
            revision: version.revision,
        }
    }
}

/// A time range, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Exclusive.
    pub after: i64,
    /// Inclusive.
    pub until: i64,
}

impl Default for Span {
    /// All times.
    fn default() -> Self {
        Span {
            after: i64::MIN,
            until: i64::MAX,
        }
    }
}

/// Retention times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Change log; 7 days by default.
    pub changes: Duration,
    /// Maximum number of log lines; a million by default.
    pub lines: u64,
    /// Lines of people and of the hub, for the audit; a year by default. Agents' lines never displace them.
    pub acts: Duration,
    /// History of facts; 400 days by default. The version valid at the cut-off is kept.
    pub facts: Duration,
}

const ONE_DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    fn default() -> Self {
        Retention {
            changes: ONE_DAY.saturating_mul(7),
            lines: 1_000_000,
            acts: ONE_DAY.saturating_mul(365),
            facts: ONE_DAY.saturating_mul(400),
        }
    }
}

/// Numbers of deleted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tidied {
    /// Lines of the change log.
    pub lines: u64,
    /// Archived lines of people.
    pub acts: u64,
    /// Versions of facts.
    pub facts: u64,
}
