//! Programs of deliveries run here, apart from the agent: the process `fairlead runner`, its client, and Helm's records.
//!
//! The runner holds no identity of Fairlead and no ServiceAccount token of the agent. A typed request names a program of a
//! fixed table, and the runner makes the command line. No request carries an argument, and no shell is involved.
//!
//! ```text
//! client, launch           the agent's side
//! server, routes           HTTP/1.1 on a Unix socket, peers of the same user only
//! table, run               runs; they survive an agent's restart
//! child, guard, processes  one program in its process group
//! upload, work             files of one run, in a folder of its own
//! request, names           typed requests, and their command lines
//! output, status           bounded output by offset, results
//! release                  records that Helm keeps in the cluster
//! ```
//!
//! Each message is HTTP/1.1 of `hyper`: the codec of the crate `exchange` belongs to streams of a session, and its dependency
//! is the wire to the hub, of which a runner knows nothing.

mod child;
mod client;
mod config;
mod contact;
mod frame;
mod guard;
mod launch;
mod memory;
mod names;
mod output;
mod processes;
mod refusal;
pub mod release;
mod request;
mod routes;
mod run;
mod server;
mod status;
mod table;
mod upload;
mod work;

pub use client::{OutputPiece, RunFile, Runner, RunnerError};
pub use config::{Config, Limits};
pub use guard::{Guarded, guard};
pub use launch::{Launch, LaunchedRunner};
pub use names::{FilePath, NameError, Namespace, ReleaseName};
pub use output::cut_mark;
pub use refusal::Refusal;
pub use request::{
    ClusterAccess, FileEntry, Operation, Rollback, RunKey, RunRequest, StatusQuery, Uninstall,
    UpgradeInstall, release_description, spec_label,
};
pub use server::serve;
pub use status::{Cause, Ending, Exit, RunState, RunStatus, RunnerInfo};
