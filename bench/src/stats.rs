//! Medians and ranges of rounds, and latencies.

use std::time::Duration;

/// Median of `values`; `None` without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Lowest and highest of `values`; `None` without values.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Significant digits of each latency.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Longest latency that is recorded exactly, in nanoseconds: ten minutes.
const MAX_LATENCY_NANOS: u64 = 600_000_000_000;

pub(crate) struct Latencies(hdrhistogram::Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // Fixed bounds, so that measuring allocates nothing. The crate accepts these bounds.
        let histogram =
            hdrhistogram::Histogram::new_with_bounds(1, MAX_LATENCY_NANOS, SIGNIFICANT_DIGITS);
        Self(histogram.expect("bounds that the crate takes"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0
            .saturating_record(latency.as_nanos().try_into().unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Percentile of the latencies in microseconds, for `share` from 0 to 1; 0 without latencies.
    pub(crate) fn micros(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_between_the_two_middle_values() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn range_holds_lowest_and_highest() {
        assert_eq!(range([2.0, 1.0, 3.0]), Some((1.0, 3.0)));
        assert_eq!(range([]), None);
    }

    #[test]
    fn merged_latencies_count_both_and_keep_three_digits() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        assert_eq!(one.micros(0.5), 0.0);
        for _ in 0..99 {
            one.record(Duration::from_micros(10));
        }
        other.record(Duration::from_secs(3600));
        one.merge(&other);
        assert_eq!(one.count(), 100);
        assert!((one.micros(0.99) - 10.0).abs() < 0.01);
        let longest = one.micros(1.0) / (MAX_LATENCY_NANOS as f64 / 1000.0);
        assert!((longest - 1.0).abs() < 0.001, "{longest}");
    }
}
