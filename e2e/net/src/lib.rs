//! The rig of the tests over real networks: five network namespaces, a link between the site and the world that can be made long,
//! slow or lossy, real proxies and load balancers, and every way in which a path breaks. Root only; `README.md` has the map.

pub mod fault;
pub mod folder;
pub mod front;
pub mod ground;
pub mod net;
pub mod pki;
pub mod squid;
pub mod stage;

pub use fairlead_e2e::link::{Random, Shape, Toward};
pub use fault::Fault;
pub use front::{Haproxy, Mode, Nginx};
pub use ground::Ground;
pub use net::Net;
pub use pki::Ca;
pub use squid::{Squid, SquidPlan};
pub use stage::Stage;

/// What everybody calls the hub; each namespace has its own idea of where that is.
pub const HUB: &str = "hub.fairlead.test";
