//! This hub begins on its database, among the others there.

use fairlead_api::{ClusterId, HubUrl};
use time::OffsetDateTime;

use super::Store;
use crate::{backend::Beat, error::Result, peers::SILENT};

/// Who this hub is to the others.
#[derive(Debug, Clone)]
pub struct Presented {
    pub url: HubUrl,
    /// The one before it in the same place, which is known to have ended, by the name that [`Store::name`] gave it.
    pub instead_of: Option<String>,
}

impl Store {
    /// What this hub is called on its database until it ends; nothing where it has it alone.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.observations.me()
    }

    /// The hub begins: sessions do not outlive one, so what the one before it said of sessions is over. Of clusters that
    /// other hubs serve it says nothing. How many clusters were lost with the one before.
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
            return Ok(shared.observations.lose_sessions(now, cause));
        }
        let before = shared.observations.claimed().len();
        let Presented { url, instead_of } = presented;
        let instead_of = instead_of.as_deref();
        let begin = Beat::Begin { instead_of };
        let backend = &shared.backend;
        backend.beat(self.name(), &url.to_string(), begin).await?;
        shared.observations.join(url.clone());
        shared
            .observations
            .take_in_hubs(backend.hubs().await?, SILENT);
        shared.url.get_or_init(|| url);
        Ok(before.saturating_sub(shared.observations.claimed().len()))
    }

    /// Whether this is the hub, of all that live, that does what one of them is to do. For some seconds two may think so.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.shared.observations.leads()
    }

    /// Where the other hub is that has a session of this cluster. None if that is not sure: it may be gone.
    #[must_use]
    pub fn elsewhere(&self, cluster: &ClusterId) -> Option<HubUrl> {
        self.shared.observations.elsewhere(cluster)
    }
}
