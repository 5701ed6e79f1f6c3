//! Metrics of the process itself, as the library counts them, with its processor time in fractions of a second. The library counts
//! whole seconds, so the rate of a process that needs a hundredth of a core would jump between nothing and much more.

use prometheus::{
    core::{Collector, Desc},
    process_collector::ProcessCollector,
    proto::{Counter, MetricFamily},
};
use rustix::time::{ClockId, clock_gettime};

const PROCESSOR_TIME: &str = "process_cpu_seconds_total";

pub(crate) struct ProcessMetrics(ProcessCollector);

impl ProcessMetrics {
    pub(crate) fn new() -> Self {
        ProcessMetrics(ProcessCollector::for_self())
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.0.collect();
        let of_time = families.iter_mut();
        let of_time = of_time.filter(|family| family.name() == PROCESSOR_TIME);
        for metric in of_time.flat_map(|family| family.mut_metric()) {
            let mut counter = Counter::default();
            counter.set_value(processor_time());
            metric.set_counter(counter);
        }
        families
    }
}

/// Processor time of all threads of this process since its start, user and system, in seconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u32::try_from(time.tv_sec).map_or(f64::from(u32::MAX), f64::from);
    let nanoseconds = u32::try_from(time.tv_nsec).map_or(0.0, f64::from);
    seconds + nanoseconds / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metrics: &ProcessMetrics) -> f64 {
        let families = metrics.collect();
        let family = families.iter().find(|it| it.name() == PROCESSOR_TIME);
        family.unwrap().get_metric()[0].get_counter().get_value()
    }

    #[test]
    fn processor_time_grows_by_less_than_a_second() {
        let metrics = ProcessMetrics::new();
        let before = shown(&metrics);
        let work = processor_time();
        while processor_time() < work + 0.01 {}
        let after = shown(&metrics);
        assert!(after >= before + 0.01, "{before} and {after}");
    }
}
