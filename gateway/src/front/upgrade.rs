//! After a `101`: joins the client's connection with the agent's stream. A broken tunnel ends the client's connection
//! with a reset.

use std::{sync::Arc, time::Duration};

use fairlead_exchange::{OnUpgrade, Spliced, Upgraded, splice, splice::SpliceEnd};
use fairlead_runtime::gauges::GaugeGuard;
use http::HeaderValue;
use tokio::time::timeout;
use tracing::debug;

use crate::{
    front::{pings::WebSocketPings, record::RequestRecord, socket::ResetOnDrop},
    hub::Hub,
    metrics::RequestEnd,
};

/// Deadline for hyper to send the `101` and hand over the connection.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Both ends of an upgraded request.
pub(crate) struct UpgradeEnds {
    pub(crate) client: OnUpgrade,
    pub(crate) agent: Upgraded,
}

/// Joins both ends, which use `protocol` now, in a task of the process.
pub(crate) fn join(
    hub: &Arc<Hub>,
    record: RequestRecord,
    reset: ResetOnDrop,
    ends: UpgradeEnds,
    protocol: &HeaderValue,
) {
    let UpgradeEnds { client, agent } = ends;
    let websocket = protocol.as_bytes().eq_ignore_ascii_case(b"websocket");
    let open = GaugeGuard::of(&hub.metrics.upgrades_open);
    // Armed until the end was clean, so that the end of the process is a reset too.
    reset.arm();
    hub.process.spawn(async move {
        let _open = open;
        let mut client = match timeout(UPGRADE_TIMEOUT, client).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                debug!(request = record.id(), %error, "client left before the upgrade");
                return record.set_outcome(RequestEnd::Left);
            }
            Err(_) => return record.set_outcome(RequestEnd::Left),
        };
        let joined = if websocket {
            splice(WebSocketPings::new(&mut client), agent).await
        } else {
            splice(&mut client, agent).await
        };
        let Spliced { to_b, to_a, end } = joined;
        record.add_bytes(to_b, to_a);
        let (error, outcome) = match end {
            SpliceEnd::Clean => return reset.disarm(),
            SpliceEnd::A(error) => (error, RequestEnd::Left),
            SpliceEnd::B(error) => (error, RequestEnd::Aborted),
        };
        debug!(request = record.id(), %error, "upgraded connection broke");
        record.set_outcome(outcome);
    });
}
