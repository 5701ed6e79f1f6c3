//! What a collector is: it names what is to be read of the API server, folds one object after the other, and tells the facts
//! in the end. It does no I/O, holds no list, and bounds what it keeps.

use serde_json::Value;
use tracing::debug;

use super::read::{self, Miss};
use crate::proxy::upstream::Upstream;

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

/// Something to read.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) what: What,
    /// The right that it needs, like `list nodes`.
    pub(super) right: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Object,
    List {
        /// In the syntax of label selectors; empty: all.
        selector: &'static str,
        /// Metadata is all that is needed.
        metadata: bool,
    },
}

impl Source {
    pub(super) fn object(path: impl Into<String>, right: &'static str) -> Self {
        Source {
            path: path.into(),
            what: What::Object,
            right,
        }
    }

    /// Whole objects.
    pub(super) fn list(path: &str, right: &'static str) -> Self {
        Source {
            path: path.to_owned(),
            what: What::List {
                selector: "",
                metadata: false,
            },
            right,
        }
    }

    /// The metadata of the objects that `selector` names.
    pub(super) fn metadata(path: &str, selector: &'static str, right: &'static str) -> Self {
        Source {
            path: path.to_owned(),
            what: What::List {
                selector,
                metadata: true,
            },
            right,
        }
    }
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

/// Runs `collector` once. None if the API server failed in between: what was known goes on to be.
pub(super) async fn round(upstream: &Upstream, mut collector: Box<dyn Collector>) -> Option<Round> {
    let (mut forbidden, mut unread) = (Vec::new(), 0);
    for (at, source) in collector.sources().into_iter().enumerate() {
        let mut odd = 0;
        let mut take = |object: &[u8]| {
            if let Err(error) = collector.take(at, object) {
                debug!(path = source.path, %error, "an object of the API server was not understood");
                odd += 1;
            }
        };
        match read::each(upstream, &source, &mut take).await {
            Ok(too_long) => unread += odd + too_long,
            Err(Miss::Absent) => {}
            Err(Miss::Forbidden) if forbidden.contains(&source.right) => {}
            Err(Miss::Forbidden) => forbidden.push(source.right),
            Err(Miss::Failed(cause)) => {
                debug!(path = source.path, cause, "not read for facts");
                return None;
            }
        }
    }
    Some(Round {
        told: collector.tell(),
        forbidden,
        unread,
    })
}
