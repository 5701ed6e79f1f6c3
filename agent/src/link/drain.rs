//! The agent takes leave of a hub: what runs on a session comes to its end.

use std::time::Duration;

use fairlead_dialer::{CloseReason, Session};
use tokio::time::timeout;
use tracing::info;

use crate::context::AgentContext;

/// How long the hub may take to take note of the end.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Lets what runs come to its end, then takes leave. The process bounds how long that may take.
pub(crate) async fn drain(context: &AgentContext, session: &Session) {
    context.requests.close();
    tokio::select! {
        () = context.requests.wait() => {}
        _ = session.closed() => {}
    }
    session.close(CloseReason::Done);
    let _ = timeout(CLOSE_DEADLINE, session.closed()).await;
    info!("session closed");
}
