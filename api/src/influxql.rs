//! The part of InfluxQL that `GET /inventory` answers: one SELECT of fields, over facts and their history. What lies outside
//! of it is refused, and the word at which that begins is named.

mod lexer;
mod parser;
mod print;

#[cfg(test)]
mod tests;

use time::Duration;

pub use print::{Within, written};

/// One query, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub select: Vec<Column>,
    /// Measurements: names of facts.
    pub from: Vec<String>,
    /// All of them hold.
    pub conditions: Vec<Condition>,
    pub range: Range,
    /// Tags, each once.
    pub group_by: Vec<Tag>,
    pub order: Order,
    /// Points of each series.
    pub limit: Option<usize>,
    pub offset: usize,
}

/// One column of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub what: Selected,
    /// `AS`
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// `*`: all fields, as they were at each point.
    All,
    Field(String),
    Of(Function, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    First,
    Last,
    Count,
}

/// By what points are told apart beside their measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    Cluster,
    Tenant,
    Source,
}

/// `tag = 'text'` or `tag != 'text'`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub tag: Tag,
    pub equals: bool,
    pub text: String,
}

/// Both ends belong to it; in nanoseconds since 1970, or before the moment at which it is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    pub from: Option<Moment>,
    pub to: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since 1970.
    At(i64),
    /// `now()` and so many nanoseconds.
    Now(i64),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Ascending,
    Descending,
}

/// What is not understood, or not offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}, {word:?}: {expected}")]
pub struct NotUnderstood {
    /// Counted from 1.
    pub at: usize,
    /// Cut at 64 characters; empty at the end of the query.
    pub word: String,
    pub expected: &'static str,
}

/// The longest query, in bytes.
pub const LONGEST: usize = 4096;

/// Understands a query.
///
/// # Errors
/// [`NotUnderstood`].
pub fn parse(text: &str) -> Result<Query, NotUnderstood> {
    if text.len() > LONGEST {
        return Err(NotUnderstood {
            at: LONGEST,
            word: String::new(),
            expected: "a query has 4096 bytes at the most",
        });
    }
    parser::parse(text)
}

impl Tag {
    pub const ALL: [Tag; 3] = [Tag::Cluster, Tag::Tenant, Tag::Source];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Tag::Cluster => "cluster",
            Tag::Tenant => "tenant",
            Tag::Source => "source",
        }
    }

    fn named(name: &str) -> Option<Tag> {
        Tag::ALL.into_iter().find(|tag| tag.as_str() == name)
    }
}

impl Function {
    pub const ALL: [Function; 3] = [Function::First, Function::Last, Function::Count];

    /// As its column is named where nobody names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Function::First => "first",
            Function::Last => "last",
            Function::Count => "count",
        }
    }

    fn named(name: &str) -> Option<Function> {
        let mut all = Function::ALL.into_iter();
        all.find(|function| function.as_str().eq_ignore_ascii_case(name))
    }
}

impl Column {
    /// What stands above it in an answer.
    #[must_use]
    pub fn title(&self) -> &str {
        match (&self.name, &self.what) {
            (Some(name), _) => name,
            (None, Selected::Field(field)) => field,
            (None, Selected::Of(function, _)) => function.as_str(),
            (None, Selected::All) => "*",
        }
    }
}

impl Moment {
    /// In nanoseconds since 1970.
    #[must_use]
    pub fn at(self, now: time::OffsetDateTime) -> i64 {
        match self {
            Moment::At(nanos) => nanos,
            Moment::Now(offset) => {
                let at = now
                    .checked_add(Duration::nanoseconds(offset))
                    .unwrap_or(now);
                i64::try_from(at.unix_timestamp_nanos()).unwrap_or(i64::MAX)
            }
        }
    }
}
