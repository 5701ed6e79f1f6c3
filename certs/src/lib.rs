//! Certificates: the hub's authority, the certificates it signs, and the TLS configurations of all sides.
//!
//! Only this crate makes or trusts a certificate. It never opens a socket. No key leaves it in the clear, except to its
//! file or Secret.

pub mod keyfile;

mod agent_key;
mod authority;
mod csr;
mod error;
mod evidence;
mod front;
mod identity;
mod inner;
mod leaf;
mod outer;
mod pin;
mod profiles;
mod registration;
mod renewal;
mod server_rule;
mod tls;

pub use agent_key::AgentKey;
pub use authority::{Authority, AuthorityFiles, CaSigner, Signed};
pub use csr::csr_fingerprint;
pub use error::CertsError;
pub use evidence::{CertificateFacts, SentCertificate};
pub use front::front_server;
pub use identity::{AgentIdentity, agent_identity, hub_expiry};
pub use inner::{HUB_SERVER_NAME, adoption_client, session_client, session_server};
pub use leaf::Leaf;
pub use outer::{
    check_authorities, outer_client, outer_client_at_any_time, outer_client_between_hubs,
    outer_client_with_evidence,
};
pub use pin::{ca_pin, ca_pins, sent_authority, sha256};
pub use profiles::{CLOCK_SLACK, LEAF_LIFETIME};
pub use registration::{Registration, SerialPrefix};
pub use renewal::renew_at;
pub use tls::{TrustError, explain};
