//! What all sessions of this process share, and what the metrics tell of it.

use fairlead_api::{Code, Failure};
use fairlead_dialer::Reserve;
use prometheus::{
    IntGauge, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

struct OnScrape {
    reserve: Reserve,
    taken: IntGauge,
    most: IntGauge,
}

/// One for the process, however many links it keeps.
///
/// # Errors
/// `FL-5101` if the registry has metrics of these names already.
pub(crate) fn reserve(bytes: usize, registry: &Registry) -> Result<Reserve, Failure> {
    let reserve = Reserve::of(bytes);
    let gauge = |name: &str, help: &str| {
        IntGauge::new(name, help).map_err(|error| Failure::because(Code::Internal, error))
    };
    let collector = OnScrape {
        reserve: reserve.clone(),
        taken: gauge(
            "fairlead_agent_session_memory_bytes",
            "What sessions hold beyond each one's own part: messages not acknowledged, grown windows.",
        )?,
        most: gauge(
            "fairlead_agent_session_memory_limit_bytes",
            "How much of that there is for all sessions together.",
        )?,
    };
    registry
        .register(Box::new(collector))
        .map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(reserve)
}

impl Collector for OnScrape {
    fn desc(&self) -> Vec<&Desc> {
        [self.taken.desc(), self.most.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.taken.set(number(self.reserve.taken()));
        self.most.set(number(self.reserve.most()));
        [self.taken.collect(), self.most.collect()].concat()
    }
}
