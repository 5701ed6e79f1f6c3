//! Common parts of all stored resources: a version of their own, and the revision of the last
//! change.

use crate::revision::Revision;

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
pub use fairlead_api::resources::ResourceKind as Kind;
