//! Types shared by hub, agent and command line: ids, resources, messages between hub and agent, the join string, error
//! codes, and the Kubernetes `Status` of a failure. This crate does no I/O.

pub mod catalog;
pub mod code;
pub mod config;
pub mod enroll;
mod error_chain;
pub mod facts;
pub mod headers;
pub mod hello;
pub mod hex;
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
pub mod site;
pub mod status;
pub mod streaming;

pub use code::{Code, Failure};
pub use error_chain::error_chain;
pub use hello::ClusterUid;
pub use ids::{ClusterId, IdError, TenantId};
pub use join::{CaPin, CaPins, HubUrl, JoinString};
pub use reason::Reason;
