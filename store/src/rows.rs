//! JsonRow types of both databases.

use crate::{
    backend::DocumentRow,
    error::{Result, StoreError},
    history::{Change, FactVersion},
    millis::from_millis,
    revision::Revision,
};

#[derive(sqlx::FromRow)]
pub(super) struct DocumentColumns {
    kind: String,
    id: String,
    version: i64,
    revision: i64,
    body: Option<String>,
}

impl TryFrom<DocumentColumns> for DocumentRow {
    type Error = StoreError;
    fn try_from(row: DocumentColumns) -> Result<Self> {
        Ok(DocumentRow {
            kind: parse(&row.kind)?,
            id: row.id,
            version: uint(row.version)?,
            revision: Revision(uint(row.revision)?),
            body: row.body,
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct ChangeColumns {
    revision: i64,
    part: i32,
    at: i64,
    actor: String,
    kind: String,
    id: String,
    tenant: Option<String>,
    operation: String,
    before: Option<String>,
    after: Option<String>,
    audience: Option<String>,
    actor_token: Option<String>,
}

impl TryFrom<ChangeColumns> for Change {
    type Error = StoreError;
    fn try_from(row: ChangeColumns) -> Result<Self> {
        Ok(Change {
            revision: Revision(uint(row.revision)?),
            part: u32::try_from(row.part).map_err(|_| damaged(&row.part))?,
            at: from_millis(row.at)?,
            actor: row.actor,
            kind: parse(&row.kind)?,
            id: row.id,
            tenant: row.tenant.as_deref().map(parse).transpose()?,
            operation: parse(&row.operation)?,
            before: row.before.as_deref().map(json).transpose()?,
            after: row.after.as_deref().map(json).transpose()?,
            audience: row.audience.as_deref().map(str::parse).transpose()?,
            actor_token: row.actor_token,
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct FactColumns {
    cluster: String,
    name: String,
    dynamic: bool,
    at: i64,
    revision: i64,
    source: String,
    observed: i64,
    value: Option<String>,
}

impl TryFrom<FactColumns> for FactVersion {
    type Error = StoreError;
    fn try_from(row: FactColumns) -> Result<Self> {
        Ok(FactVersion {
            cluster: parse(&row.cluster)?,
            name: row.name,
            dynamic: row.dynamic,
            at: row.at,
            revision: Revision(uint(row.revision)?),
            source: json(&format!("{:?}", row.source))?,
            observed: row.observed,
            value: row.value.as_deref().map(json).transpose()?,
        })
    }
}

/// Converts all rows, or returns the first unreadable one.
pub(super) fn all<R, T: TryFrom<R, Error = StoreError>>(rows: Vec<R>) -> Result<Vec<T>> {
    rows.into_iter().map(T::try_from).collect()
}

/// A missing table is code 1 (ERROR) in SQLite, 42P01 in PostgreSQL.
pub(super) fn is_missing_table(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("1" | "42P01"))
}

/// Databases use signed integers.
pub(super) fn int(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| damaged(&number))
}

pub(super) fn uint(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged(&number))
}

fn damaged(what: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(what.to_string())
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| damaged(&text))
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|_| damaged(&text))
}
