//! What a collector is: it names what is to be read of the API server, folds one object after the other, and tells the facts
//! in the end. It does no I/O, holds no list, and bounds what it keeps.

use serde_json::Value;

use super::source::Source;

/// One round of one kind of fact.
pub(super) trait Collector: Send {
    /// What it reads, in this order.
    fn sources(&self) -> Vec<Source>;

    /// One object of the source with this place in [`Collector::sources`].
    ///
    /// # Errors
    /// It is not what it should be; it is left out.
    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error>;

    /// What came of it; no fact where there was nothing to be told.
    fn tell(self: Box<Self>) -> Vec<Told>;
}

/// A fact, and how much of it was left out because it would have been too much.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) left_out: usize,
}

impl Told {
    pub(super) fn whole(name: &str, value: impl Into<Value>) -> Self {
        Told {
            name: name.to_owned(),
            value: value.into(),
            left_out: 0,
        }
    }
}

/// What one round brought.
#[derive(Debug, PartialEq)]
pub(super) struct Round {
    pub(super) told: Vec<Told>,
    /// Rights that were missing.
    pub(super) forbidden: Vec<&'static str>,
    /// Objects that were too long, or not what they should be.
    pub(super) unread: usize,
}
