//! Access of clusters to a real Vault: workloads of a real cluster read their own secrets and nobody
//! else's, and the end of the cluster is the end of its access.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod clusters;
mod logins;
mod parts;
mod world;
