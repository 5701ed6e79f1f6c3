//! `CONNECT` of agents: a stream of the session joined with a connection that a module makes.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_exchange::{Body, OnUpgrade, body, splice};
use http::{Request, Response};
use tokio::time::timeout;
use tracing::debug;

use crate::{agents::entry::SessionEntry, hub::Hub};

/// Time for the stream to become raw after its answer was sent.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects for an agent, and joins both ends in a task of the process.
///
/// # Errors
/// `FL-1509` without a module for such connections; its own refusals otherwise.
pub(super) async fn connect(
    hub: &Arc<Hub>,
    entry: &SessionEntry,
    mut request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let outbound = hub.outbound.as_ref().ok_or_else(|| {
        let cause = "the hub has no addresses of Git servers in `--git-proxy-allow`";
        Failure::because(Code::GitProxyRefused, cause)
    })?;
    hub.check_audit()?;
    let raw = request.extensions_mut().remove::<OnUpgrade>();
    let raw = raw.ok_or(Code::BadRequest)?;
    let target = request.uri().authority().map(ToString::to_string);
    let target = target.ok_or(Code::BadRequest)?;
    let connection = outbound.connect(entry.identity(), &target).await?;
    hub.process.spawn(async move {
        match timeout(UPGRADE_TIMEOUT, raw).await {
            Ok(Ok(raw)) => {
                let spliced = splice(raw, connection).await;
                debug!(to_agent = spliced.to_a, to_server = spliced.to_b, end = ?spliced.end, "outbound connection ended");
            }
            Ok(Err(error)) => debug!(%error, "agent left before its outbound connection"),
            Err(_) => debug!("outbound connection was not taken in time"),
        }
    });
    Ok(Response::new(body::empty()))
}
