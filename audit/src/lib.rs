//! Audit log of a hub: events of requests in a hash chain of files, their check, reading, and delivery elsewhere.
//!
//! It knows no gateway and no store. `docs/audit.md` documents the form of the events.

mod chain;
mod event;
mod journal;
mod log;
mod request_info;
mod segment;
#[cfg(test)]
mod tests;
mod verify;

pub use chain::{LineHash, hex, unhex};
pub use event::{
    AuditEvent, Decision, EVENT_VERSION, EventCaller, EventKind, RequestHead, RequestParty,
    RequestResult, Stage, timestamp,
};
pub use journal::JournalSettings;
pub use log::{AuditLog, AuditUnwritable, AuditWriter, OnFull};
pub use request_info::{RequestInfo, ResourceInfo, harmless_query};
pub use verify::{Defect, Finding, Verification, verify};
