//! The whole agent in one process with a fake hub and a fake API server, over real sockets.

#![cfg(test)]

mod bindings;
mod configuration;
mod connect_hostile;
mod facts;
mod layers;
mod learned;
mod links;
mod memory;
mod own_token;
mod proxy;
mod rejoin;
mod rig;
mod secret;
mod sessions;
mod several_hubs;
mod traces;
mod upgrade;
mod upgrades;
mod watch;
