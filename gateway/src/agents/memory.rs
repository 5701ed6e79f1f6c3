//! Tells how much of the memory that all sessions share is in use.

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
    unread: IntGauge,
}

/// What a hub's sessions share.
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
            "fairlead_session_memory_bytes",
            "What sessions hold beyond each one's own part: messages not acknowledged, grown windows.",
        )?,
        most: gauge(
            "fairlead_session_memory_limit_bytes",
            "How much of that there is for all sessions together.",
        )?,
        unread: gauge(
            "fairlead_session_unread_bytes",
            "What has come on streams and their clients do not read; at the same limit new requests are refused.",
        )?,
    };
    registry
        .register(Box::new(collector))
        .map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(reserve)
}

impl Collector for OnScrape {
    fn desc(&self) -> Vec<&Desc> {
        [&self.taken, &self.most, &self.unread]
            .map(Collector::desc)
            .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.taken.set(number(self.reserve.taken()));
        self.most.set(number(self.reserve.most()));
        self.unread.set(number(self.reserve.unread()));
        [&self.taken, &self.most, &self.unread]
            .map(Collector::collect)
            .concat()
    }
}
