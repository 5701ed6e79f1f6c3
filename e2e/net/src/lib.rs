//! Rig of the tests over real networks.
//!
//! It consists of five network namespaces, a link between site and world that can be long, slow or lossy,
//! real proxies and load balancers, and faults of the path. It needs root. `README.md` has the map.

pub mod capture;
pub mod dns;
pub mod fault;
pub mod folder;
pub mod front;
pub mod ground;
pub mod left;
pub mod net;
pub mod squid;
pub mod stage;

pub use capture::Capture;
pub use dns::Dns;
pub use fairlead_e2e::link::{LinkShape, Random, Toward};
pub use fault::Fault;
pub use front::{Haproxy, Mode, Nginx};
pub use ground::Ground;
pub use net::Net;
pub use squid::{Squid, SquidPlan};
pub use stage::Stage;

/// Name of the hub. Each namespace resolves it to an address of its own.
pub const HUB: &str = "hub.fairlead.test";
