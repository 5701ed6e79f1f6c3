//! Start of this hub on its database.

use fairlead_api::{ClusterId, HubUrl};
use time::OffsetDateTime;

use super::Store;
use crate::{backend::Heartbeat, error::Result, heartbeats::HEARTBEAT_TIMEOUT};

/// Identity of this hub for the others.
#[derive(Debug, Clone)]
pub struct Presented {
    /// URL of this hub.
    pub url: HubUrl,
    /// Predecessor in the same place that is known to have ended, by the name from [`Store::name`].
    pub instead_of: Option<String>,
}

impl Store {
    /// Name of this hub on its database until it ends; empty if it is the only user.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.observations.me()
    }

    /// Announces the start of this hub. Sessions end with their hub, so the predecessor's connected
    /// clusters become lost; clusters of other hubs are untouched. Returns the number of lost
    /// clusters.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError)
    pub async fn begin(
        &self,
        presented: Presented,
        now: OffsetDateTime,
        cause: &str,
    ) -> Result<usize> {
        let shared = &self.shared;
        if !shared.backend.is_shared() {
            return Ok(shared.observations.mark_sessions_lost(now, cause));
        }
        let before = shared.observations.with_session().len();
        let Presented { url, instead_of } = presented;
        let instead_of = instead_of.as_deref();
        let begin = Heartbeat::Begin { instead_of };
        let backend = &shared.backend;
        backend.beat(self.name(), &url.to_string(), begin).await?;
        shared.observations.join(url.clone());
        shared
            .observations
            .apply_hubs(backend.hubs().await?, HEARTBEAT_TIMEOUT);
        shared.url.get_or_init(|| url);
        Ok(before.saturating_sub(shared.observations.with_session().len()))
    }

    /// True if this hub performs the tasks that one of all live hubs must do. During a handover two
    /// hubs may both return true for some seconds.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.shared.observations.leads()
    }

    /// URL of another hub with a session of this cluster; `None` if that hub may be gone.
    #[must_use]
    pub fn elsewhere(&self, cluster: &ClusterId) -> Option<HubUrl> {
        self.shared.observations.elsewhere(cluster)
    }

    /// True if other hubs may work on the same database.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared.backend.is_shared()
    }
}
