//! Rig of the end-to-end tests: a real Kubernetes, the real kubectl, the built `fairlead`.
//!
//! Nothing is mocked. Every child process ends with the test process, also when that one is killed, and every
//! wait has a deadline.

pub mod admin;
pub mod argocd;
pub mod calls;
pub mod dex;
pub mod fleet;
pub mod flux;
pub mod gitea;
pub mod helm;
pub mod inspector;
pub mod kube;
pub mod kubectl;
pub mod kubelet;
pub mod link;
pub mod netns;
pub mod pod;
pub mod prometheus;
pub mod pty;
pub mod raw_tcp;
pub mod secrets;
pub mod squid;
pub mod ssh;
pub mod targets;
pub mod vault;

pub use admin::Metrics;
pub use calls::{CALL_KINDS, END_DEADLINE, RunningCalls};
pub use fleet::{BACKUP_IDENTITY, BACKUP_RECIPIENT, Hub, Joining, Site};
pub use kube::Cluster;
pub use kubectl::{Kubectl, Output, RunningKubectl, UpgradeProtocol};
pub use kubelet::{Kubelet, Route};
pub use netns::NetNs;
pub use pod::Pod;
pub use pty::Terminal;
pub use secrets::KnownSecrets;

pub use fairlead_testkit::postgres::PostgresServer;
pub use fairlead_testkit::process::{Launch, Process, Usage, children};
pub use fairlead_testkit::raw::{BodyEnd, RawAnswer, RawClient, RawExchange};
pub use fairlead_testkit::wait::{eventually, setting};
