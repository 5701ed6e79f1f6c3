//! Deadlines of the heads of answers, and probes of sessions in use: one timer for all requests, because nearly all have their answer
//! long before.

use std::{sync::Arc, time::Duration};

use fairlead_api::headers::CHECK_INTERVAL;
use tokio::time::sleep;

use crate::hub::Hub;

/// Longest delay of a deadline.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Wakes all requests without the head of their answer, so that they look at their deadlines, and probes their sessions, until no session
/// is left.
pub(crate) async fn sweep(hub: Arc<Hub>) {
    let interval = MAX_DELAY.min(hub.head_timeout / 4);
    let sweeping = async {
        loop {
            sleep(interval).await;
            for session in hub.sessions.open_sessions(None) {
                session.wake_waiting();
                session.probe_in_use(CHECK_INTERVAL);
            }
        }
    };
    hub.sessions_ended.run_until_cancelled(sweeping).await;
}
