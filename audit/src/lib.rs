//! Audit log of a hub: events of requests in a hash chain of files, their check, reading, and delivery elsewhere.
//!
//! It knows no gateway and no store. `docs/audit.md` documents the form of the events.

mod buffer;
mod chain;
mod config;
mod deliver;
mod event;
mod heads;
mod journal;
mod line;
mod log;
mod metrics;
mod policy;
mod read;
mod recording;
mod request_info;
mod segment;
mod sink;
#[cfg(test)]
mod tests;
mod verify;

pub use chain::{LineHash, hex, unhex};
pub use config::{AuditConfig, OnFull};
pub use event::{
    AuditEvent, CallerNames, Decision, EVENT_VERSION, EventCaller, EventKind, RequestHead,
    RequestParty, RequestResult, Stage, timestamp,
};
pub use heads::{ChainHeads, chain_heads};
pub use journal::JournalSettings;
pub use log::{AuditLog, AuditUnwritable, AuditWriter, StartedEvent};
pub use policy::{Recorder, Recording, SessionFacts, Unrecordable};
pub use read::{EventFilter, EventPage, read};
pub use recording::{OpenError, Piece, RecordingFile, open_recording, recordings};
pub use request_info::{RequestInfo, ResourceInfo, harmless_query};
pub use sink::Sinks;
pub use verify::{Defect, Finding, Verification, verify, verify_with};
