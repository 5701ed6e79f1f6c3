//! Last uses of API tokens.

use std::collections::HashMap;

use time::OffsetDateTime;

use super::Store;
use crate::{
    error::Result,
    millis::{from_millis, millis},
    shared::StoreState,
};

impl Store {
    /// Notes that an API token was used now. It reaches the database with the next
    /// [`Store::persist_token_uses`].
    pub fn token_used(&self, id: &str) {
        let now = millis(self.shared.clock.now());
        self.shared.token_uses.note(id, now);
    }

    /// Writes the uses since the last call; returns their number. A failed write is repeated with
    /// the next call.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError)
    pub async fn persist_token_uses(&self) -> Result<usize> {
        self.shared.persist_token_uses().await
    }

    /// Last use of each API token at any hub. Those at other hubs are up to a minute old.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError)
    pub async fn token_uses(&self) -> Result<HashMap<String, OffsetDateTime>> {
        let stored = self.shared.counted_backend().token_uses().await?;
        let mut uses: HashMap<String, i64> = stored.into_iter().collect();
        self.shared.token_uses.each(|id, at| {
            let last = uses.entry(id.to_owned()).or_insert(at);
            *last = at.max(*last);
        });
        let uses = uses.into_iter();
        uses.map(|(id, at)| Ok((id, from_millis(at)?))).collect()
    }
}

impl StoreState {
    pub(super) async fn persist_token_uses(&self) -> Result<usize> {
        let view = self.view();
        let pending = self.token_uses.take_pending(|id| view.token(id).is_some());
        if pending.is_empty() {
            return Ok(0);
        }
        let written = self.backend.record_token_uses(&pending).await;
        if written.is_err() {
            self.token_uses.return_pending(&pending);
        }
        written.map(|()| pending.len())
    }
}
