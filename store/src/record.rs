//! What every kept thing has in common: a version of its own, and the revision of the change that wrote it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{error::StoreError, revision::Revision};

/// A value as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<T> {
    pub value: T,
    /// 1 when it was made; rises with each change of this very record.
    pub version: u64,
    /// Of the change that wrote it.
    pub revision: Revision,
}

/// What kinds of things change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tenant,
    Cluster,
    Token,
    Catalog,
}

impl Kind {
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
