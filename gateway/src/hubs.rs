//! The other hubs on the same database: sessions to them, and requests that hubs forward to each other.
//!
//! ```text
//! links       sessions that this hub has opened at the others; the choice of one
//! link        one other hub: dials it, and dials again
//! presence    sessions of a cluster at all hubs
//! refused     hubs that have refused a request, so that none is sent twice
//! serve       a session that another hub has opened here
//! relayed     running requests of other hubs, and the reason for their end
//! relay       a request that another hub has forwarded, on its way to an agent
//! ```
//!
//! A forwarded request goes to sessions of this hub only (`relay`), so no request takes a second hop.

pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod presence;
pub(crate) mod refused;
mod relay;
mod relay_record;
pub(crate) mod relayed;
pub(crate) mod serve;

use std::sync::Arc;

use futures_util::StreamExt;

use crate::hub::Hub;

/// Follows the list of hubs until the process drains.
pub(crate) async fn follow(hub: Arc<Hub>) {
    let Some(mut changes) = hub.seam.directory.remote_hub_changes() else {
        return;
    };
    loop {
        hub.links.update(&hub, hub.seam.directory.remote_hubs());
        tokio::select! {
            changed = changes.next() => if changed.is_none() { return },
            () = hub.process.draining() => return,
        }
    }
}
