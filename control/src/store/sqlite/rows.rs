//! Rows as SQLite gives them.

use crate::store::{Revision, StoreError, backend::DocumentRow, error::Result};

#[derive(sqlx::FromRow)]
pub(super) struct Document {
    kind: String,
    id: String,
    version: i64,
    revision: i64,
    body: Option<String>,
}

impl TryFrom<Document> for DocumentRow {
    type Error = StoreError;
    fn try_from(row: Document) -> Result<Self> {
        Ok(DocumentRow {
            kind: row.kind.parse()?,
            id: row.id,
            version: uint(row.version)?,
            revision: Revision(uint(row.revision)?),
            body: row.body,
        })
    }
}

/// Databases count with a sign.
pub(super) fn int(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| StoreError::Damaged(number.to_string()))
}

pub(super) fn uint(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| StoreError::Damaged(number.to_string()))
}
