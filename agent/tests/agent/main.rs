//! The agent as a whole, in one process with a hub and an API server of this test's own, over real sockets.

#![cfg(test)]

mod configuration;
mod facts;
mod layers;
mod links;
mod memory;
mod proxy;
mod rejoin;
mod rig;
mod secret;
mod sessions;
mod several_hubs;
mod upgrade;
