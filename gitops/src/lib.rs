//! The agent's side of GitOps: makes the SSH key with which the cluster's tool (Flux or Argo CD) reads the catalog,
//! keeps it in the Secret of the tool, and rotates it without a gap.
//!
//! The private key never leaves the cluster: only public halves go to the hub. All state of a rotation is in Secrets of
//! the cluster, and each write is a compare-and-swap. So an agent that is killed continues where it was, and several
//! agents of one cluster do no harm to each other without a lease.

mod adopt;
mod adoption_end;
mod decide;
mod der;
mod found;
mod health;
mod hosts;
mod key;
mod kube;
mod repairs;
mod request;
mod secrets;
mod status;
mod sync;
#[cfg(test)]
mod testing;
mod tool;
mod watch;
mod worker;

pub use adoption_end::{AdoptedTool, AdoptionEndError};
pub use key::{KeyError, KeyPair, fingerprint};
pub use status::{GitOpsStatus, Problem};
pub use worker::{KeyRegistry, RegistryUnreachable, Worker};
