//! Parsed queries.

use time::Duration;

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Selected columns.
    pub select: Vec<Column>,
    /// Measurements: names of facts.
    pub from: Vec<String>,
    /// Conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// Time range.
    pub range: Range,
    /// Tags to group by, without duplicates.
    pub group_by: Vec<Tag>,
    /// Order of points by time.
    pub order: Order,
    /// Limit of points per series.
    pub limit: Option<usize>,
    /// Number of points per series to skip.
    pub offset: usize,
}

/// One selected column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Expression of the column.
    pub selected: Selected,
    /// Name after `AS`.
    pub name: Option<String>,
}

/// Expression of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// `*`: all fields at each point.
    All,
    /// One field.
    Field(String),
    /// A function of one field.
    Of(Function, String),
}

/// Aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Oldest value.
    First,
    /// Latest value.
    Last,
    /// Number of values.
    Count,
}

/// Tag of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// Id of the cluster.
    Cluster,
    /// Id of the cluster's tenant.
    Tenant,
    /// Source of the fact.
    Source,
}

/// Condition `tag = 'text'` or `tag != 'text'`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Tag to compare.
    pub tag: Tag,
    /// True for `=`, false for `!=`.
    pub equals: bool,
    /// Text to compare with.
    pub text: String,
}

/// Time range with inclusive bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// Lower bound.
    pub from: Option<Moment>,
    /// Upper bound.
    pub to: Option<Moment>,
}

/// Point in time of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since 1970.
    At(i64),
    /// Nanoseconds after `now()`, negative for the past.
    Now(i64),
}

/// Order of points by time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    #[default]
    Ascending,
    /// Latest first.
    Descending,
}

/// Error of parsing a query: a word is invalid or not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}, {word:?}: {expected}")]
pub struct QueryError {
    /// Position of the word in characters, starting at 1.
    pub at: usize,
    /// The word, at most 64 characters; empty at the end of the query.
    pub word: String,
    /// Description of the expected syntax.
    pub expected: &'static str,
}

impl Tag {
    /// All tags.
    pub const ALL: [Tag; 3] = [Tag::Cluster, Tag::Tenant, Tag::Source];

    /// Name of the tag.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Tag::Cluster => "cluster",
            Tag::Tenant => "tenant",
            Tag::Source => "source",
        }
    }

    pub(super) fn named(name: &str) -> Option<Tag> {
        Tag::ALL.into_iter().find(|tag| tag.as_str() == name)
    }
}

impl Function {
    /// All functions.
    pub const ALL: [Function; 3] = [Function::First, Function::Last, Function::Count];

    /// Name of the function, also the default name of its column.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Function::First => "first",
            Function::Last => "last",
            Function::Count => "count",
        }
    }

    pub(super) fn named(name: &str) -> Option<Function> {
        let mut all = Function::ALL.into_iter();
        all.find(|function| function.as_str().eq_ignore_ascii_case(name))
    }
}

impl Column {
    /// Title of the column in the response.
    #[must_use]
    pub fn title(&self) -> &str {
        match (&self.name, &self.selected) {
            (Some(name), _) => name,
            (None, Selected::Field(field)) => field,
            (None, Selected::Of(function, _)) => function.as_str(),
            (None, Selected::All) => "*",
        }
    }
}

impl Moment {
    /// The point in time in nanoseconds since 1970.
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
