//! kubectl as everybody has it, through hub and agent to a real API server, beside the same calls straight to it:
//! nothing that a person sees may tell which way a call went.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod copy;
mod follow;
mod forward;
mod identity;
mod proxy;
mod read;
mod row;
mod stream;
mod world;
mod write;

use std::time::Duration;

use fairlead_e2e::Transport;

const BOTH: [Transport; 2] = [Transport::WebSocket, Transport::Spdy];
/// Far more than anything here takes on a busy machine of two cores.
const SOON: Duration = Duration::from_secs(30);
