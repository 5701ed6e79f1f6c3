//! The subset of InfluxQL that `GET /inventory` supports: one SELECT of fields over facts and their history. The parser rejects
//! everything else and reports the first unsupported word.

mod lexer;
mod parser;
mod print;
mod query;

#[cfg(test)]
mod tests;

pub use print::{Within, written};
pub use query::{
    Column, Condition, Function, Moment, Order, Query, QueryError, Range, Selected, Tag,
};

/// Limit of a query, in bytes.
pub const MAX_QUERY_BYTES: usize = 4096;

/// Parses a query.
///
/// # Errors
/// [`QueryError`] at the first invalid or unsupported word.
pub fn parse(text: &str) -> Result<Query, QueryError> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(QueryError {
            at: MAX_QUERY_BYTES,
            word: String::new(),
            expected: "a query has at most 4096 bytes",
        });
    }
    parser::parse(text)
}
