//! What modules have said about a caller, remembered for a second, so that a burst of requests does not ask the store
//! for each. Only yes is remembered: a refusal is asked anew, and takes the same time for every cluster that is not
//! the caller's.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fairlead_api::{ClusterId, Failure};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use crate::seam::{Authenticator, Authorizer, Caller, Grant};

/// How long a yes is good: within it a withdrawn token still works.
const GOOD_FOR: Duration = Duration::from_secs(1);
const MAX_REMEMBERED: usize = 1024;

pub(crate) struct Trust {
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
    callers: Memory<Caller>,
    grants: Memory<Grant>,
}

impl Trust {
    pub(crate) fn new(
        authenticator: Arc<dyn Authenticator>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        Trust {
            authenticator,
            authorizer,
            callers: Memory::new(),
            grants: Memory::new(),
        }
    }

    pub(crate) async fn caller(
        &self,
        token: &SecretString,
        from: IpAddr,
    ) -> Result<Caller, Failure> {
        let key = self.callers.key(token.expose_secret());
        if let Some(caller) = self.callers.get(key) {
            return Ok(caller);
        }
        let caller = self.authenticator.authenticate(token, from).await?;
        self.callers.put(key, caller.clone());
        Ok(caller)
    }

    pub(crate) async fn grant(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, Failure> {
        let key = self.grants.key((
            &caller.name,
            caller.role,
            &caller.tenant,
            &caller.cluster,
            cluster,
        ));
        if let Some(grant) = self.grants.get(key) {
            return Ok(grant);
        }
        let grant = self.authorizer.authorize(caller, cluster).await?;
        self.grants.put(key, grant.clone());
        Ok(grant)
    }
}

/// Keyed by 128 bits of two secret keyed hashes, so that no token is kept and none can be made to collide.
type Key = (u64, u64);

struct Memory<V> {
    keys: (RandomState, RandomState),
    known: Mutex<HashMap<Key, (Instant, V)>>,
}

impl<V: Clone> Memory<V> {
    fn new() -> Self {
        Memory {
            keys: (RandomState::new(), RandomState::new()),
            known: Mutex::default(),
        }
    }

    fn key(&self, of: impl Hash) -> Key {
        (self.keys.0.hash_one(&of), self.keys.1.hash_one(&of))
    }

    fn get(&self, key: Key) -> Option<V> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, value) = known.get(&key)?;
        (at.elapsed() < GOOD_FOR).then(|| value.clone())
    }

    fn put(&self, key: Key, value: V) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
        }
        if known.len() < MAX_REMEMBERED {
            known.insert(key, (Instant::now(), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_good_for_a_second() {
        let memory = Memory::new();
        let key = memory.key("token");
        memory.put(key, 7);
        assert_eq!(memory.get(key), Some(7));
        assert_eq!(memory.get(memory.key("other")), None);
        tokio::time::advance(GOOD_FOR).await;
        assert_eq!(memory.get(key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_recovers() {
        let memory = Memory::new();
        for n in 0..2 * MAX_REMEMBERED {
            memory.put(memory.key(n), n);
        }
        assert_eq!(memory.known.lock().unwrap().len(), MAX_REMEMBERED);
        tokio::time::advance(GOOD_FOR).await;
        memory.put(memory.key("new"), 1);
        assert_eq!(memory.get(memory.key("new")), Some(1));
    }
}
