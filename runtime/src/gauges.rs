//! Gauges that keep themselves correct: guards that count down on drop, and values that are read on each scrape.

use fairlead_api::{Code, Failure};
use prometheus::{
    IntGauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::metrics::Registry;

/// Counts one in a gauge until it is dropped.
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    /// Counts one in this gauge.
    #[must_use]
    pub fn of(gauge: &IntGauge) -> Self {
        gauge.inc();
        GaugeGuard(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A gauge that is read on each scrape: name without the program's prefix, help, and reader.
pub type Figure<T> = (&'static str, &'static str, ReadGauge<T>);
type ReadGauge<T> = fn(&T) -> usize;

struct FigureCollector<T> {
    of: T,
    gauges: Vec<(IntGauge, ReadGauge<T>)>,
}

/// Registers the `figures` of a value as gauges; their names begin with `program`.
///
/// # Errors
/// `FL-5101` if the registry has metrics of these names already.
pub fn register<T>(
    registry: &Registry,
    program: &str,
    of: T,
    figures: &[Figure<T>],
) -> Result<(), Failure>
where
    T: Send + Sync + 'static,
{
    let gauge = |&(name, help, read): &Figure<T>| {
        IntGauge::new(format!("{program}_{name}"), help).map(|gauge| (gauge, read))
    };
    let gauges: Result<_, _> = figures.iter().map(gauge).collect();
    let registered =
        gauges.and_then(|gauges| registry.register(Box::new(FigureCollector { of, gauges })));
    registered.map_err(|error| Failure::because(Code::Internal, error))
}

impl<T: Send + Sync> Collector for FigureCollector<T> {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.iter();
        gauges.flat_map(|(gauge, _)| gauge.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = self.gauges.iter();
        let asked = gauges.flat_map(|(gauge, read)| {
            gauge.set(i64::try_from(read(&self.of)).unwrap_or(i64::MAX));
            gauge.collect()
        });
        asked.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use super::*;

    #[test]
    fn guard_counts_down_on_drop() {
        let gauge = IntGauge::new("held", "So many.").unwrap();
        let (one, two) = (GaugeGuard::of(&gauge), GaugeGuard::of(&gauge));
        assert_eq!(gauge.get(), 2);
        drop((one, two));
        assert_eq!(gauge.get(), 0);
    }

    #[test]
    fn figures_are_read_on_each_scrape() {
        let (registry, number) = (Registry::new(), Arc::new(AtomicUsize::new(1)));
        let figures: [Figure<Arc<AtomicUsize>>; 2] = [
            ("now", "As it is.", |number| number.load(SeqCst)),
            ("most", "No number is too large.", |_| usize::MAX),
        ];
        register(&registry, "test", number.clone(), &figures).unwrap();
        let told = || {
            let families = registry.gather();
            let value =
                |family: &MetricFamily| family.get_metric()[0].get_gauge().get_value() as i64;
            let told = families.iter().map(|it| (it.name().to_owned(), value(it)));
            told.collect::<Vec<_>>()
        };
        let most = || ("test_most".to_owned(), i64::MAX);
        assert_eq!(told(), [most(), ("test_now".to_owned(), 1)]);
        number.store(7, SeqCst);
        assert_eq!(told(), [most(), ("test_now".to_owned(), 7)]);
        let again = register(&registry, "test", number, &figures);
        assert_eq!(again.unwrap_err().code, Code::Internal);
    }
}
