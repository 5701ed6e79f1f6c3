//! Records that Helm keeps of a release, one Secret per revision, and what they tell after a kill.
//!
//! Everything here is pure. Helm's record is internal to Helm: it is written in one case only, to mark a revision as failed
//! whose program is gone, and only in the form of Helm 4.

mod judge;
mod record;
mod revision;

pub use judge::{Attempt, Judgement, ProcessState, Work, judge};
pub use record::{ObjectRef, Record, RecordError};
pub use revision::{ReleaseStatus, Revision, history, selector};

#[cfg(test)]
mod tests;
