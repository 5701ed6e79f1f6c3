//! Limits of concurrent requests: of one caller, and of all callers of a tenant.
//!
//! A script that runs away uses up its owner's slots, not others'. A tenant with many callers leaves slots for the
//! other tenants.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use fairlead_api::TenantId;
use fairlead_seam::{AuthenticateError, Caller, FairPool, Share, Taken};

/// Number of callers beyond which those without a request are forgotten.
const MAX_IDLE_CALLERS: usize = 1024;
/// Limit of requests of authenticated callers with unfinished answers. One tenant gets at most half of them.
const MAX_REQUESTS: usize = 32_768;

/// Group of callers that share a budget: a tenant, or one caller of all tenants.
pub(crate) fn group(caller: &Caller) -> String {
    match &caller.tenant {
        Some(tenant) => format!("tenant {tenant}"),
        None => caller.name.clone(),
    }
}

/// Concurrent requests by caller.
pub(crate) struct CallerLimit {
    max: usize,
    tenants: FairPool<String>,
    running: Mutex<HashMap<String, Arc<CallerCount>>>,
}

#[derive(Debug)]
struct CallerCount {
    tenant: Option<TenantId>,
    share: Arc<Share>,
    requests: AtomicUsize,
}

/// Slot of one request; given back on drop.
#[derive(Debug)]
pub(crate) struct CallerSlot {
    count: Arc<CallerCount>,
    _slot: Option<Taken>,
}

impl Drop for CallerSlot {
    fn drop(&mut self) {
        self.count.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallerLimit {
    pub(crate) fn new(max: usize) -> Self {
        CallerLimit {
            max,
            tenants: FairPool::new(MAX_REQUESTS),
            running: Mutex::default(),
        }
    }

    /// Takes a slot of this caller, and of its tenant.
    ///
    /// # Errors
    /// [`AuthenticateError::TooManyRequests`]
    pub(crate) fn acquire(&self, caller: &Caller) -> Result<CallerSlot, AuthenticateError> {
        let count = self.of(caller);
        let too_many = |caller: String, limit| AuthenticateError::TooManyRequests { caller, limit };
        let running = count.requests.fetch_add(1, Ordering::Relaxed);
        let mut slot = CallerSlot { count, _slot: None };
        if running >= self.max {
            return Err(too_many(caller.name.clone(), self.max));
        }
        let share = &slot.count.share;
        match share.take(1) {
            None => Err(too_many(group(caller), share.used())),
            taken => {
                slot._slot = taken;
                Ok(slot)
            }
        }
    }

    fn of(&self, caller: &Caller) -> Arc<CallerCount> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get(&caller.name)
            && count.tenant == caller.tenant
        {
            return Arc::clone(count);
        }
        if running.len() >= MAX_IDLE_CALLERS {
            running.retain(|_, count| Arc::strong_count(count) > 1);
        }
        let count = Arc::new(CallerCount {
            tenant: caller.tenant.clone(),
            share: self.tenants.share(group(caller)),
            requests: AtomicUsize::new(0),
        });
        running.insert(caller.name.clone(), Arc::clone(&count));
        count
    }
}

#[cfg(test)]
mod tests;
