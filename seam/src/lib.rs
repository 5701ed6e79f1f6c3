//! The module seam: the interface between the gateway and its modules. The gateway knows no module by name, and modules
//! know no gateway.

mod access;
mod answer_deadline;
mod body;
mod caller;
mod directory;
mod error;
mod fair_pool;
mod grants;
mod module;
mod named_services;
mod network;
mod outbound;
mod principal;
mod requests;

pub use access::{Authenticator, Authorizer};
pub use answer_deadline::AnswerDeadline;
pub use body::{BodyTerms, MAX_STRANGER_BODY_BYTES, SharedBodyTerms};
pub use caller::{Caller, Grant, Subject, SubjectProof};
pub use directory::{AgentHubs, Directory, Recognition, RemoteHub};
pub use error::{AuthenticateError, AuthorizeError, DirectoryError, TooManyWrongTokens};
pub use fair_pool::{FairPool, Share, Taken};
pub use grants::{ClusterScope, GrantKind, GrantScope, NamespaceGrant, ScopedGrant};
pub use module::{
    AgentAddress, AgentPeer, EmergencyNote, FleetActivity, Module, Presence, Seam, SessionActivity,
    refuse,
};
pub use named_services::{NamedService, NamedServices, ServiceEntry};
pub use network::network;
pub use outbound::{Outbound, OutboundIo};
pub use principal::{Identify, Principal};
pub use requests::{RequestFilter, RunningRequests, Termination};
