//! Last uses of API tokens at this hub, in memory. The hot path takes one short lock of one shard.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Ids of tokens are random, so their bytes spread evenly.
const SHARD_COUNT: usize = 16;

#[derive(Clone, Copy)]
struct LastUse {
    /// Milliseconds since 1970.
    at: i64,
    /// True if the database has it.
    is_written: bool,
}

#[derive(Default)]
pub(crate) struct TokenUses([Mutex<HashMap<String, LastUse>>; SHARD_COUNT]);

impl TokenUses {
    fn shard(&self, id: &str) -> Option<MutexGuard<'_, HashMap<String, LastUse>>> {
        let last = usize::from(id.bytes().next_back().unwrap_or_default());
        let shard = self.0.get(last % SHARD_COUNT)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn note(&self, id: &str, at: i64) {
        let Some(mut shard) = self.shard(id) else {
            return;
        };
        match shard.get_mut(id) {
            Some(last) if last.at >= at => {}
            Some(last) => (last.at, last.is_written) = (at, false),
            None => {
                let is_written = false;
                shard.insert(id.to_owned(), LastUse { at, is_written });
            }
        }
    }

    /// Uses to write. Forgets tokens that no longer exist.
    pub(crate) fn take_pending(&self, exists: impl Fn(&str) -> bool) -> Vec<(String, i64)> {
        let mut pending = Vec::new();
        for shard in &self.0 {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|id, last| {
                let is_known = exists(id);
                if is_known && !last.is_written {
                    last.is_written = true;
                    pending.push((id.clone(), last.at));
                }
                is_known
            });
        }
        pending
    }

    /// Marks uses as not written.
    pub(crate) fn return_pending(&self, pending: &[(String, i64)]) {
        for (id, _) in pending {
            if let Some(last) = self.shard(id).as_mut().and_then(|it| it.get_mut(id)) {
                last.is_written = false;
            }
        }
    }

    pub(crate) fn each(&self, mut visit: impl FnMut(&str, i64)) {
        for shard in &self.0 {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.iter().for_each(|(id, last)| visit(id, last.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_is_written_once_and_again_after_a_failure() {
        let uses = TokenUses::default();
        for at in [5, 7, 6] {
            uses.note("k-1", at);
        }
        uses.note("k-gone", 1);
        let exists = |id: &str| id == "k-1";
        let pending = uses.take_pending(exists);
        assert_eq!(pending, [("k-1".to_owned(), 7)]);
        assert_eq!(uses.take_pending(exists), []);
        uses.return_pending(&pending);
        assert_eq!(uses.take_pending(exists), pending);
        uses.note("k-1", 8);
        assert_eq!(uses.take_pending(exists), [("k-1".to_owned(), 8)]);
    }
}
