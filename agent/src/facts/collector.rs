//! Interface of a collector: it names its sources, folds one object after the other, and returns facts in the
//! end. It does no I/O, keeps no list, and bounds its memory.

use serde_json::Value;

use super::source::CollectorSource;

/// One round of one kind of fact.
pub(super) trait Collector: Send {
    /// Sources, in the order in which they are read.
    fn sources(&self) -> Vec<CollectorSource>;

    /// Folds one object of the source at index `source` of [`Collector::sources`].
    ///
    /// # Errors
    ///
    /// The object is invalid; it is skipped.
    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error>;

    /// Facts of this round; none if nothing was found.
    fn finish(self: Box<Self>) -> Vec<CollectedFact>;
}

/// Fact with the number of entries omitted for its size.
#[derive(Debug, PartialEq)]
pub(super) struct CollectedFact {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) left_out: usize,
}

impl CollectedFact {
    pub(super) fn whole(name: &str, value: impl Into<Value>) -> Self {
        CollectedFact {
            name: name.to_owned(),
            value: value.into(),
            left_out: 0,
        }
    }
}

/// Result of one round.
#[derive(Debug, PartialEq)]
pub(super) struct CollectionRound {
    pub(super) facts: Vec<CollectedFact>,
    /// Missing rights.
    pub(super) forbidden: Vec<&'static str>,
    /// Number of objects skipped as too long or invalid.
    pub(super) unread: usize,
}
