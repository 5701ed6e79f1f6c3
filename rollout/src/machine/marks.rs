//! Effect of reports on a cluster.

use super::{
    observed::ClusterReport,
    slot::{Flags, Slot},
};
use crate::clock::UnixMillis;

pub(super) fn set_connected(slot: &mut Slot, connected: bool) {
    slot.flags.set(Flags::ONLINE, connected);
    if connected {
        slot.flags.set(Flags::SEEN, true);
    }
}

/// Released generation, and times before that failures do not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub(super) to: u64,
    /// Time of the last resume after a halt: failures up to it are tolerated.
    pub(super) forgiven_before: Option<UnixMillis>,
    /// Time of the last retry: failures up to it are void.
    pub(super) retried_before: Option<UnixMillis>,
}

impl Marks {
    pub(super) fn forgives(self, failure: UnixMillis) -> bool {
        self.forgiven_before.is_some_and(|it| failure <= it)
    }

    pub(super) fn voids(self, failure: UnixMillis) -> bool {
        self.retried_before.is_some_and(|it| failure <= it)
    }
}

pub(super) fn take_report(slot: &mut Slot, report: &ClusterReport<'_>, marks: Marks) {
    let about = report.is_about(marks.to);
    let ready = report.is_ready(marks.to);
    let flags = &mut slot.flags;
    flags.set(Flags::READY, ready);
    if about {
        flags.set(Flags::SEEN, true);
    }
    if ready {
        flags.set(Flags::FAILURE, false);
    } else if report.is_failed(marks.to) {
        if !flags.has(Flags::FAILED) && !marks.voids(report.since) {
            flags.set(Flags::FAILED, true);
            flags.set(Flags::FORGIVEN, marks.forgives(report.since));
        }
    } else if about && !flags.has(Flags::TIMED_OUT) {
        flags.set(Flags::FAILURE, false);
    }
}
