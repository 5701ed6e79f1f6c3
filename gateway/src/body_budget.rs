//! Memory budget of the bodies that modules read, of callers and agents: shared evenly by tenants, and in each tenant by
//! tokens and clusters. Strangers' bodies have a budget apart from it, so that strangers never use up this one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_seam::{AuthenticateError, BodyTerms, Caller, FairPool, Share, SharedBodyTerms};

use crate::front::{caller_limit::group, stranger_pools::StrangerPools};

/// Budget of all callers and agents. One tenant gets at most half of it.
const BODY_BYTES: usize = 256 * 1024 * 1024;
/// Bodies of one tenant. One token or cluster of it gets at most half.
const TENANT_BODY_BYTES: usize = BODY_BYTES / 2;
/// Number of tenants beyond which those without a body are forgotten.
const MAX_IDLE_TENANTS: usize = 1024;

pub(crate) struct BodyBudget {
    tenants: FairPool<String>,
    /// Pools of the senders of each tenant.
    senders: Mutex<HashMap<String, FairPool<String>>>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        BodyBudget {
            tenants: FairPool::new(BODY_BYTES),
            senders: Mutex::default(),
        }
    }
}

impl BodyBudget {
    pub(crate) fn for_caller(&self, caller: &Caller) -> BodyTerms {
        let sender = caller.token.as_ref().unwrap_or(&caller.name);
        BodyTerms::within(self.shares(group(caller), sender.clone()), None)
    }

    /// Terms for the agents of a cluster, or for an agent that enrols.
    pub(crate) fn for_agent(&self, tenant: &str, cluster: &str) -> SharedBodyTerms {
        let shares = self.shares(format!("tenant {tenant}"), format!("agent {cluster}"));
        SharedBodyTerms::within(shares)
    }

    pub(crate) fn for_stranger(
        &self,
        strangers: &StrangerPools,
        from: IpAddr,
        refusal: AuthenticateError,
    ) -> BodyTerms {
        BodyTerms::within(vec![strangers.memory(from)], Some(refusal))
    }

    fn shares(&self, tenant: String, sender: String) -> Vec<Arc<Share>> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if senders.len() >= MAX_IDLE_TENANTS {
            senders.retain(|_, pool| !pool.is_idle());
        }
        let pool = senders.entry(tenant.clone());
        let pool = pool.or_insert_with(|| FairPool::new(TENANT_BODY_BYTES));
        vec![self.tenants.share(tenant), pool.share(sender)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::samples::caller;

    const MIB_BYTES: usize = 1024 * 1024;

    fn of(tenant: &str, token: &str) -> Caller {
        let mut caller = caller(token);
        caller.tenant = Some(tenant.parse().unwrap());
        caller.token = Some(token.to_owned());
        caller
    }

    fn fill(terms: &mut BodyTerms) -> usize {
        let mut taken = 0;
        while terms.take(MIB_BYTES).is_ok() {
            taken += 1;
        }
        taken
    }

    #[test]
    fn one_token_leaves_memory_to_its_tenant_and_one_tenant_to_others() {
        let budget = BodyBudget::default();
        let mut first = budget.for_caller(&of("t-a", "one"));
        assert_eq!(fill(&mut first), 64, "half of its tenant's half");
        let mut second = budget.for_caller(&of("t-a", "two"));
        assert!(fill(&mut second) >= 20);
        let mut agent = budget.for_agent("t-a", "c-1").terms();
        assert!(fill(&mut agent) >= 5);
        let mut other = budget.for_caller(&of("t-b", "three"));
        assert!(fill(&mut other) >= 60);
        drop(first);
        assert!(fill(&mut second) >= 10, "memory is given back");
    }

    #[test]
    fn memory_of_an_agents_body_is_held_until_its_request_ends() {
        let budget = BodyBudget::default();
        let request = budget.for_agent("t-a", "c-1");
        let mut terms = request.terms();
        let filled = fill(&mut terms);
        request.keep_memory(terms);
        assert!(
            budget
                .for_agent("t-a", "c-1")
                .terms()
                .take(MIB_BYTES)
                .is_err()
        );
        drop(request);
        assert_eq!(fill(&mut budget.for_agent("t-a", "c-1").terms()), filled);
    }
}
