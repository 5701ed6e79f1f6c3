//! Small statistics: medians of rounds, and a latency histogram of fixed size.

/// The middle of `values`, or the mean of the two middle ones; `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Lowest and highest of `values`; `None` of nothing.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Steps within one power of two: a percentile is read at most 1/64 too high.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = (STEPS as usize) * (64 - STEP_BITS as usize + 1);

/// Counts durations in nanoseconds, exactly below 64 ns and with a relative error of at most 1/64 above.
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
        }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanos)) {
            *bucket += 1;
            self.count += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += more;
        }
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The value that `percent` of all records do not exceed (nearest rank), in nanoseconds, rounded up to its step; 0 of nothing.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= rank {
                return highest_in(index);
            }
        }
        0
    }
}

fn bucket_of(nanos: u64) -> usize {
    let power = u64::BITS - nanos.leading_zeros();
    let shift = power.saturating_sub(STEP_BITS + 1);
    let index = u64::from(shift) * STEPS + (nanos >> shift);
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn highest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    let first = bucket - shift * STEPS;
    (((u128::from(first) + 1) << shift) - 1)
        .try_into()
        .unwrap_or(u64::MAX)
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
    fn every_value_lies_in_its_bucket_within_the_promised_error() {
        let mut value = 0_u64;
        while value < u64::MAX / 3 {
            for nanos in [value, value + 1] {
                let read = highest_in(bucket_of(nanos));
                assert!(
                    read >= nanos && read - nanos <= nanos / STEPS,
                    "{nanos} is read as {read}"
                );
            }
            value = value * 3 / 2 + 1;
        }
        assert_eq!(highest_in(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50), 0);
        for nanos in 1..=50 {
            histogram.record(nanos);
        }
        assert_eq!(
            (
                histogram.percentile(50),
                histogram.percentile(99),
                histogram.count()
            ),
            (25, 50, 50)
        );
    }

    #[test]
    fn merged_histograms_count_both() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        for _ in 0..99 {
            one.record(10);
        }
        other.record(60);
        one.merge(&other);
        assert_eq!((one.percentile(99), one.percentile(100)), (10, 60));
    }
}
