//! kubectl through hub and agent compared with the same calls directly to a real API server. Users must see
//! no difference.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod access;
mod copy;
mod ended;
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

use fairlead_e2e::UpgradeProtocol;

const BOTH: [UpgradeProtocol; 2] = [UpgradeProtocol::WebSocket, UpgradeProtocol::Spdy];
/// Default deadline, far longer than any step on a busy machine of two cores.
const STEP_DEADLINE: Duration = Duration::from_secs(30);
