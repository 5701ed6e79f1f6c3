//! State of the handlers of facts.

use fairlead_registry::stale::Reporting;
use fairlead_store::{Clock, Store};
use time::OffsetDateTime;

use crate::influx::Influx;

/// Facts of one hub.
pub(crate) struct FactsState {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Intervals of the sources of facts.
    pub(crate) reporting: Reporting,
    /// Writer of facts to InfluxDB, if one is configured.
    pub(crate) influx: Option<Box<Influx>>,
}

impl FactsState {
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }
}
