//! What was: the log of changes, from which a program can go on where it stopped, and the history of facts. Both are kept
//! for a time, and cut in slices.

use std::{str::FromStr, time::Duration};

use fairlead_api::{ClusterId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use crate::{
    audience::Audience,
    error::{Result, StoreError},
    model::FactSource,
    record::Kind,
    revision::Revision,
};

/// The most lines or versions that are answered at once.
pub const MAX_PAGE: u32 = 10_000;
/// What became of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Created,
    Updated,
    Deleted,
}

impl Operation {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::Created => "created",
            Operation::Updated => "updated",
            Operation::Deleted => "deleted",
        }
    }
}

impl FromStr for Operation {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self> {
        [Operation::Created, Operation::Updated, Operation::Deleted]
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| StoreError::Damaged(text.to_owned()))
    }
}

/// One thing that one change has touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub revision: Revision,
    /// Counts what one change has touched, from 0.
    pub part: u32,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// A caller's name, `agent:<cluster>`, or `system:hub`.
    pub actor: String,
    /// Id of the API token with which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_token: Option<String>,
    pub kind: Kind,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub operation: Operation,
    /// What is no more so. Of what was updated only what differs; of a secret never more than that there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What is so now, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Who could see it. None: a hub of the version before has written the line. It is nobody's business but the registry's.
    #[serde(skip)]
    pub audience: Option<Audience>,
}

/// A place in the log, before this line of this change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    pub revision: Revision,
    pub part: u32,
}

impl From<Revision> for LogPlace {
    /// Before all of that change.
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

/// Whole changes, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    pub changes: Vec<Change>,
    /// Nothing up to here was left out: the `since` to go on from.
    pub revision: Revision,
}

/// Which lines of the log are wanted; all of them by default.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub thing: Option<(Kind, String)>,
    /// Of things of this tenant and of all below it, as it was before or after the change.
    pub tenant: Option<TenantId>,
    pub actor: Option<String>,
    /// Of what this tenant's people could see, before or after. Lines of the version before, which do not say that, are
    /// among them all.
    pub seen_by: Option<TenantId>,
}

/// A fact as it was from `at` on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactVersion {
    pub cluster: ClusterId,
    pub name: String,
    /// One of the cluster's dynamic facts, not of those that people have set.
    pub dynamic: bool,
    /// In milliseconds since 1970.
    pub at: i64,
    pub revision: Revision,
    pub source: FactSource,
    /// In milliseconds since 1970.
    pub observed: i64,
    /// None: it was removed.
    #[serde(default)]
    pub value: Option<Value>,
}

/// A place among the versions of one fact, the latest first: behind this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactPlace {
    /// In milliseconds since 1970.
    pub at: i64,
    pub cluster: ClusterId,
    pub dynamic: bool,
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

/// Times in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Not this very millisecond any more.
    pub after: i64,
    /// Including this millisecond.
    pub until: i64,
}

impl Default for Span {
    /// All of it.
    fn default() -> Self {
        Span {
            after: i64::MIN,
            until: i64::MAX,
        }
    }
}

/// How long what was is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The log of changes; 7 days by default.
    pub changes: Duration,
    /// The most lines of it; a million by default.
    pub lines: u64,
    /// The history of facts; 400 days by default. What a fact was when that time began is kept longer.
    pub facts: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    fn default() -> Self {
        Retention {
            changes: DAY.saturating_mul(7),
            lines: 1_000_000,
            facts: DAY.saturating_mul(400),
        }
    }
}

/// How much was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tidied {
    pub lines: u64,
    pub facts: u64,
}
