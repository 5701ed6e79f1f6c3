//! Exemplars of a histogram: for each bucket the last observation that belongs to an exported trace.
//!
//! The crate of the metrics has none, so they are kept beside it and joined in the OpenMetrics text.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus::proto::LabelPair;
use time::OffsetDateTime;

/// Exemplars of one histogram; clones share them. Labels are constants, so their number is bounded.
#[derive(Debug, Clone, Default)]
pub struct Exemplars(Arc<Mutex<BTreeMap<BucketKey, Exemplar>>>);

/// Values of the labels, sorted by the names of the labels, and the bits of the bucket's upper bound.
type BucketKey = (String, u64);

/// An observation with its trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) trace: String,
    pub(crate) value: f64,
    /// Unix time in seconds.
    pub(crate) at: f64,
}

impl Exemplars {
    /// Keeps an observation as the exemplar of its bucket. `labels` are the values in the order of the labels' names.
    pub fn observe(&self, labels: &[&'static str], bounds: &[f64], value: f64, trace: &str) {
        let bound = bounds.iter().copied().find(|bound| value <= *bound);
        let at = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
        let exemplar = Exemplar {
            trace: trace.to_owned(),
            value,
            at: at as f64 / 1000.0,
        };
        let key = (labels.join("\n"), bound.unwrap_or(f64::INFINITY).to_bits());
        self.buckets().insert(key, exemplar);
    }

    pub(crate) fn get(&self, labels: &[LabelPair], bound: f64) -> Option<Exemplar> {
        let values: Vec<&str> = labels.iter().map(LabelPair::value).collect();
        let key = (values.join("\n"), bound.to_bits());
        self.buckets().get(&key).cloned()
    }

    fn buckets(&self) -> MutexGuard<'_, BTreeMap<BucketKey, Exemplar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
