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

use crate::{
    fair_pool::{FairPool, Share, Taken},
    seam::{AuthenticateError, Caller},
};

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
mod tests {
    use fairlead_api::Code;

    use super::*;

    fn caller(name: &str, tenant: Option<&str>) -> Caller {
        Caller {
            tenant: tenant.map(|tenant| tenant.parse().unwrap()),
            ..crate::seam::samples::caller(name)
        }
    }

    #[test]
    fn callers_have_separate_limits() {
        let caller_limit = CallerLimit::new(2);
        let (ann, bob) = (caller("ann", None), caller("bob", None));
        let held = [
            caller_limit.acquire(&ann).unwrap(),
            caller_limit.acquire(&ann).unwrap(),
        ];
        for _ in 0..3 {
            let refused = caller_limit.acquire(&ann).unwrap_err();
            assert_eq!(refused.code(), Code::TooManyRequests);
            assert!(
                refused.to_string().ends_with("ann has 2 of them"),
                "{refused}"
            );
        }
        caller_limit.acquire(&bob).unwrap();
        drop(held);
        caller_limit.acquire(&ann).unwrap();
    }

    #[test]
    fn callers_of_one_tenant_leave_slots_for_other_tenants() {
        let caller_limit = CallerLimit::new(1000);
        let mut held = Vec::new();
        for n in 0..40 {
            let caller = caller(&format!("t-big:{n}"), Some("t-big"));
            held.extend((0..1000).map_while(|_| caller_limit.acquire(&caller).ok()));
        }
        assert_eq!(held.len(), MAX_REQUESTS / 2);
        let refused = caller_limit.acquire(&caller("t-big:x", Some("t-big")));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("tenant t-big has 16384"), "{refused}");
        caller_limit
            .acquire(&caller("t-small:a", Some("t-small")))
            .unwrap();
        caller_limit.acquire(&caller("root", None)).unwrap();
    }

    #[test]
    fn idle_callers_are_forgotten() {
        let caller_limit = CallerLimit::new(1);
        let busy = caller("busy", None);
        let held = caller_limit.acquire(&busy).unwrap();
        for n in 0..2 * MAX_IDLE_CALLERS {
            drop(caller_limit.acquire(&caller(&n.to_string(), None)).unwrap());
        }
        assert!(caller_limit.running.lock().unwrap().len() <= MAX_IDLE_CALLERS + 1);
        assert!(caller_limit.acquire(&busy).is_err(), "its count was kept");
        drop(held);
    }
}
