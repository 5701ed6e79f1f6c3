//! Logs of runs: order of appended pieces, and the cut middle of long ones.
//!
//! A log keeps its first and its last half MiB. Offsets are those of the bytes that the agent sends, so that they stay
//! valid when the middle is cut.

mod buffer;
mod extent;
mod retention;

pub use self::{
    buffer::{AppendRefusal, LogBuffer},
    extent::{
        LOG_HEAD_BYTES, LOG_TAIL_BYTES, LogAppend, LogExtent, LogGap, LogPart, MAX_LOG_BYTES,
    },
    retention::{LogAge, LogLimits, expired_logs, run_created_at},
};
