//! Poller of a hub's changes. It continues from the last observed revision, so an outage of the hub loses no change.

use std::time::Duration;

use fairlead_api::{Failure, percent, resources::Changes};
use fairlead_runtime::backoff::ExponentialDelay;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::hub_client::{HubClient, HubError};

/// First and longest delay before a request to an unavailable hub is repeated.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Longest wait of a long poll that the hub accepts, in seconds.
pub const LONG_POLL_SECONDS: u64 = 25;

/// Begin or end of a time without a usable answer of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubOutage<'a> {
    /// First failed request; the poller waits.
    Began(&'a Failure),
    /// The hub has answered again.
    Ended,
}

/// Poller of changes. It waits for an unavailable hub, and reports the outage once.
pub struct ChangePoller<'a> {
    hub: &'a HubClient,
    report: fn(HubOutage<'_>),
    delay: ExponentialDelay,
    /// Additional query parameters of `/v1/changes`; empty for all changes.
    filter: String,
}

impl<'a> ChangePoller<'a> {
    /// Poller of all changes; `report` is called at the begin and the end of an outage.
    #[must_use]
    pub fn new(hub: &'a HubClient, report: fn(HubOutage<'_>)) -> Self {
        ChangePoller {
            hub,
            report,
            delay: ExponentialDelay::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX),
            filter: String::new(),
        }
    }

    /// Restricts [`ChangePoller::poll`] to changes that match these query parameters.
    #[must_use]
    pub fn filtered(self, filter: String) -> Self {
        ChangePoller { filter, ..self }
    }

    /// Current revision. Changes after it are those that a later list does not have.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn current_revision(&self) -> Result<u64, HubError> {
        let changes: Changes = self.hub.get("/v1/changes").await?;
        Ok(changes.revision)
    }

    /// Changes since a revision. Returns as soon as there is one, at the latest after `wait` seconds.
    ///
    /// # Errors
    /// [`HubError`]; [`HubError::Compacted`] if it no longer has the changes since that revision.
    pub async fn poll(&mut self, since: &str, wait: u64) -> Result<Changes, HubError> {
        let path = format!("/v1/changes?{}", self.filter);
        self.long_poll(path.trim_end_matches('?'), since, wait)
            .await
    }

    /// Long poll of another path; `since` is the end of the previous response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn long_poll<T: DeserializeOwned>(
        &mut self,
        path: &str,
        since: &str,
        wait: u64,
    ) -> Result<T, HubError> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}since={}&wait={wait}", percent::encode(since));
        loop {
            match self.hub.get(&path).await {
                Err(error) if wait > 0 && error.is_temporary() => self.wait_to_retry(&error).await,
                answer => {
                    self.report_recovery();
                    return answer;
                }
            }
        }
    }

    /// Waits before the next request to an unavailable hub.
    pub async fn wait_to_retry(&mut self, error: &HubError) {
        if self.delay.is_reset() {
            (self.report)(HubOutage::Began(error.failure()));
        }
        sleep(self.delay.next_delay()).await;
    }

    /// Ends an outage: the hub has answered.
    pub fn report_recovery(&mut self) {
        if !self.delay.is_reset() {
            (self.report)(HubOutage::Ended);
        }
        self.delay.reset();
    }
}
