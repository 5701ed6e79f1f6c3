//! Phase of a run, and the figures counted in its measured window.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const PHASE_WARM_UP: u8 = 0;
const PHASE_MEASURE: u8 = 1;
const PHASE_END: u8 = 2;

/// State that the requests of one run share.
pub(super) struct LoadWindow {
    phase: AtomicU8,
    bytes: AtomicU64,
    answers: AtomicU64,
    /// Requests in flight at the end are aborted.
    pub(super) cut: bool,
}

impl LoadWindow {
    /// A run in its warm-up.
    pub(super) fn new(cut: bool) -> Self {
        Self {
            phase: AtomicU8::new(PHASE_WARM_UP),
            bytes: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            cut,
        }
    }

    pub(super) fn begin(&self) {
        self.phase.store(PHASE_MEASURE, Relaxed);
    }

    pub(super) fn end(&self) {
        self.phase.store(PHASE_END, Relaxed);
    }

    pub(super) fn measuring(&self) -> bool {
        self.phase.load(Relaxed) == PHASE_MEASURE
    }

    pub(super) fn ended(&self) -> bool {
        self.phase.load(Relaxed) == PHASE_END
    }

    /// Counts bytes of bodies.
    pub(super) fn count(&self, bytes: usize) {
        if self.measuring() {
            self.bytes.fetch_add(bytes as u64, Relaxed);
        }
    }

    pub(super) fn count_answer(&self) {
        self.answers.fetch_add(1, Relaxed);
    }

    /// Bytes of bodies so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Complete answers so far.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Relaxed)
    }
}
