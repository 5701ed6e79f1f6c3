//! Lists of all hubs of one database, without traffic between hubs: one hub calls for parts, and each hub writes its own.
//!
//! A hub answers once per second at most, with its state of that moment.

use std::sync::{Arc, OnceLock};

use fairlead_api::HubUrl;
use tokio::{sync::Mutex, time::Instant};

/// Part of a list that another live hub contributes.
#[derive(Debug, Clone)]
pub struct HubPart {
    /// The hub.
    pub hub: HubUrl,
    /// Its answer; `None` if it did not answer in time.
    pub body: Option<String>,
}

/// Answer of a hub in the database.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct PartRow {
    pub(super) hub: String,
    pub(super) body: String,
}

/// Source of this hub's own part.
pub(super) type PartSource = Arc<dyn Fn() -> String + Send + Sync>;

/// State of the calls at this hub.
#[derive(Default)]
pub(crate) struct Parts {
    pub(super) source: OnceLock<PartSource>,
    pub(super) latest: Mutex<Option<(Instant, Vec<HubPart>)>>,
}
