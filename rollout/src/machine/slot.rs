//! Progress of one cluster, and the counters of a wave.

/// Facts about one cluster, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags(u16);

impl Flags {
    /// Deleted, or targeted no longer.
    pub(super) const GONE: Flags = Flags(1);
    pub(super) const ONLINE: Flags = Flags(1 << 1);
    pub(super) const RELEASED: Flags = Flags(1 << 2);
    /// At the released generation and `Ready`.
    pub(super) const READY: Flags = Flags(1 << 3);
    pub(super) const FAILED: Flags = Flags(1 << 4);
    /// Failed by time: only `Ready` ends this failure.
    pub(super) const TIMED_OUT: Flags = Flags(1 << 5);
    /// Failed before the last resume.
    pub(super) const FORGIVEN: Flags = Flags(1 << 6);
    /// Connected at least once in this rollout.
    pub(super) const SEEN: Flags = Flags(1 << 7);
    /// In a queue of returned clusters.
    pub(super) const QUEUED: Flags = Flags(1 << 8);
    /// Began to match after the start; takes part once its wave is done.
    pub(super) const APART: Flags = Flags(1 << 9);
    /// All bits of a failure.
    pub(super) const FAILURE: Flags = Flags(Self::FAILED.0 | Self::TIMED_OUT.0 | Self::FORGIVEN.0);

    /// True if any of the bits is set.
    pub(super) const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Bits of both.
    pub(super) const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(super) fn set(&mut self, other: Flags, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }
}

/// One cluster of a rollout, in 6 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// Last reported cause; an index of the table of causes.
    pub(super) cause: u16,
    pub(super) wave: u16,
    pub(super) flags: Flags,
}

/// Class of a cluster. Each cluster of a wave is in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Counts for nothing: deleted, or targeted no longer.
    Gone,
    /// Counts for nothing but the display.
    Offline,
    Ready,
    Unreleased,
    InProgress,
    Failed,
    /// Failed before the last resume.
    Forgiven,
}

impl Slot {
    pub(super) fn class(&self) -> Class {
        let flags = self.flags;
        if flags.has(Flags::GONE) {
            Class::Gone
        } else if !flags.has(Flags::ONLINE) {
            Class::Offline
        } else if flags.has(Flags::READY) {
            Class::Ready
        } else if !flags.has(Flags::RELEASED) {
            Class::Unreleased
        } else if !flags.has(Flags::FAILED) {
            Class::InProgress
        } else if flags.has(Flags::FORGIVEN) {
            Class::Forgiven
        } else {
            Class::Failed
        }
    }

    fn participates(&self) -> bool {
        self.flags.has(Flags::SEEN) && !self.flags.has(Flags::GONE)
    }
}

/// Number of clusters of a wave by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) offline: u32,
    pub(super) ready: u32,
    pub(super) unreleased: u32,
    pub(super) in_progress: u32,
    pub(super) failed: u32,
    pub(super) forgiven: u32,
    /// Clusters connected at least once: the base of percentages.
    pub(super) participants: u32,
}

impl Counters {
    pub(super) fn add(&mut self, slot: &Slot) {
        if let Some(count) = self.count(slot.class()) {
            *count += 1;
        }
        self.participants += u32::from(slot.participates());
    }

    pub(super) fn subtract(&mut self, slot: &Slot) {
        if let Some(count) = self.count(slot.class()) {
            *count = count.saturating_sub(1);
        }
        let participates = u32::from(slot.participates());
        self.participants = self.participants.saturating_sub(participates);
    }

    fn count(&mut self, class: Class) -> Option<&mut u32> {
        match class {
            Class::Gone => None,
            Class::Offline => Some(&mut self.offline),
            Class::Ready => Some(&mut self.ready),
            Class::Unreleased => Some(&mut self.unreleased),
            Class::InProgress => Some(&mut self.in_progress),
            Class::Failed => Some(&mut self.failed),
            Class::Forgiven => Some(&mut self.forgiven),
        }
    }

    /// Connected clusters.
    pub(super) fn online(&self) -> u32 {
        self.ready + self.unreleased + self.unavailable()
    }

    /// All clusters that are still targeted.
    pub(super) fn all(&self) -> u32 {
        self.online() + self.offline
    }

    /// Connected clusters that are released and not ready.
    pub(super) fn unavailable(&self) -> u32 {
        self.in_progress + self.failed + self.forgiven
    }

    /// True if each connected cluster is ready or failed.
    pub(super) fn is_settled(&self) -> bool {
        self.unreleased == 0 && self.in_progress == 0
    }
}
