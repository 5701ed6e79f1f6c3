//! Each named fault between an agent and its hub has its stage and its code: in `fairlead doctor`, in the agent's log, in an
//! Event, and in the hub's status where the hub knows of it.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod bundle;
mod faults;
mod healthy;
mod hub;
mod proxies;
mod refusals;
mod servers;
mod world;
