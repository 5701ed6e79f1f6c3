//! Types shared by hub, agent and command line: ids, resources, messages between hub and agent, the join string, error
//! codes, and the Kubernetes `Status` of a failure. This crate does no I/O.

pub mod adoption;
pub mod catalog;
mod checked_text;
pub mod checkup;
pub mod code;
pub mod config;
pub mod delivery;
pub mod enroll;
mod error_chain;
pub mod facts;
pub mod gitops;
pub mod headers;
pub mod hello;
pub mod hex;
pub mod hop;
pub mod hub_list;
pub mod ids;
pub mod impersonation;
pub mod influxql;
pub mod join;
pub mod moment;
pub mod percent;
pub mod reason;
pub mod resources;
mod schema;
mod secret;
pub mod selector;
pub mod site;
pub mod status;
pub mod streaming;
pub mod tcp;
mod time_span;
pub mod upgrade;

pub use code::{Code, Failure};
pub use error_chain::error_chain;
pub use hello::ClusterUid;
pub use ids::{BundleId, ClusterId, GroupId, IdError, RolloutId, RunId, SourceId, TenantId};
pub use join::{CaPin, CaPins, HubUrl, JoinString};
pub use reason::Reason;
pub use selector::{Selector, SelectorError};
pub use time_span::{TimeSpan, TimeSpanError};
