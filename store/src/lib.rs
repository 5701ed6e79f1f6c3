//! Durable state of a hub. The registry is a value (a [`View`]), a change is a function from one value to the next
//! ([`Store::change`]), and SQLite or PostgreSQL makes it durable before it is answered.
//!
//! Reads take no lock and never wait. Observed status ([`Observed`]) is written in batches and may be lost.
//! This crate speaks no HTTP, judges no request, and keeps no token, only hashes.

mod agent_hubs;
mod audience;
mod backend;
pub mod claim;
mod clock;
mod connections;
mod data_dir;
mod delivery;
mod derived_cache;
mod document;
mod draft;
pub mod dump;
mod error;
mod exceeded_quota;
mod heartbeats;
mod history;
mod journal;
mod leadership;
mod membership;
mod metrics;
mod millis;
pub mod model;
mod observations;
mod observed;
mod open;
mod part_calls;
mod parts;
mod place;
mod postgres;
mod queries;
mod quota;
mod quota_terms;
pub mod random;
mod record;
mod remote_commits;
mod revision;
mod rows;
mod schema;
mod shared;
mod sqlite;
mod store;
mod tables;
mod token_uses;
mod unusable;
mod view;
mod writer;

pub use agent_hubs::{AgentAddress, AgentHubs};
pub use audience::Audience;
pub use clock::Clock;
pub use connections::{Connections, SqliteConnections};
pub use data_dir::{DataDir, LOCK};
pub use derived_cache::DerivedCache;
pub use draft::Draft;
pub use dump::{Tallies, Tally};
pub use error::{DumpError, Refusal, StoreError};
pub use exceeded_quota::{ExceededQuota, QuotaKind};
pub use fairlead_api::resources::Operation;
pub use heartbeats::LiveHub;
pub use history::{
    Asked, Change, Changes, FactPlace, FactVersion, LogPlace, MAX_PAGE, Retention, Span, Tidied,
};
pub use journal::Actor;
pub use metrics::Meter;
pub use millis::{millis, whole_millis};
pub use observed::Observed;
pub use open::is_new;
pub use parts::HubPart;
pub use place::Place;
pub use record::{Kind, Record};
pub use revision::Revision;
pub use sqlite::{SqliteWrite, SqliteWriter};
pub use store::{Store, begin::Presented};
pub use unusable::unusable;
pub use view::{CatalogHead, View};
pub use writer::Done;
