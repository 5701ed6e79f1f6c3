//! Selection a collector is: it names what is to be read of the API server, folds one object after the other, and tells the facts
//! in the end. It does no I/O, holds no list, and bounds what it keeps.

use serde_json::Value;

use super::source::FactSource;

/// One round of one kind of fact.
pub(super) trait Collector: Send {
    /// Selection it reads, in this order.
    fn sources(&self) -> Vec<FactSource>;

    /// One object of the source with this place in [`Collector::sources`].
    ///
    /// # Errors
    /// It is not what it should be; it is left out.
    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error>;

    /// Selection came of it; no fact where there was nothing to be told.
    fn finish(self: Box<Self>) -> Vec<CollectedFact>;
}

/// A fact, and how much of it was left out because it would have been too much.
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

/// Selection one round brought.
#[derive(Debug, PartialEq)]
pub(super) struct CollectionRound {
    pub(super) facts: Vec<CollectedFact>,
    /// Rights that were missing.
    pub(super) forbidden: Vec<&'static str>,
    /// Objects that were too long, or not what they should be.
    pub(super) unread: usize,
}
