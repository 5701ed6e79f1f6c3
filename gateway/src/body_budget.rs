//! Memory budget of the bodies that modules read: shared evenly by tenants, and apart from it by strangers' addresses.

use std::net::IpAddr;

use fairlead_seam::{AuthenticateError, BodyTerms, Caller, FairPool};

use crate::front::{caller_limit::group, stranger_pools::StrangerPools};

/// Budget of all authenticated callers. One tenant gets at most half of it.
const CALLER_BODY_BYTES: usize = 256 * 1024 * 1024;

pub(crate) struct BodyBudget {
    callers: FairPool<String>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        BodyBudget {
            callers: FairPool::new(CALLER_BODY_BYTES),
        }
    }
}

impl BodyBudget {
    pub(crate) fn for_caller(&self, caller: &Caller) -> BodyTerms {
        BodyTerms::within(self.callers.share(group(caller)), None)
    }

    pub(crate) fn for_stranger(
        &self,
        strangers: &StrangerPools,
        from: IpAddr,
        refusal: AuthenticateError,
    ) -> BodyTerms {
        BodyTerms::within(strangers.memory(from), Some(refusal))
    }
}
