//! Common parts of all stored resources: a version of their own, and the revision of the last
//! change.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{error::StoreError, revision::Revision};

/// A stored value.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<T> {
    /// The value.
    pub value: T,
    /// 1 at creation; incremented with each change of this record.
    pub version: u64,
    /// Revision of its last change.
    pub revision: Revision,
}

/// Kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// [`Tenant`](crate::model::Tenant)
    Tenant,
    /// [`Cluster`](crate::model::Cluster)
    Cluster,
    /// API [`Token`](crate::model::Token)
    Token,
    /// Catalog
    Catalog,
}

impl Kind {
    /// The name in JSON and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Tenant => "tenant",
            Kind::Cluster => "cluster",
            Kind::Token => "token",
            Kind::Catalog => "catalog",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self, StoreError> {
        [Kind::Tenant, Kind::Cluster, Kind::Token, Kind::Catalog]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| StoreError::Damaged(text.to_owned()))
    }
}
