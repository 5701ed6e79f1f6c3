//! Owners of stalled answers.

use fairlead_seam::Caller;

use crate::front::caller_limit::group;

/// Owner of a stalled answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StallOwner {
    /// Tenant, or caller of all tenants.
    pub(crate) group: String,
    /// Token, or caller of an issuer.
    pub(crate) token: String,
}

impl StallOwner {
    pub(crate) fn of(caller: &Caller) -> Self {
        StallOwner {
            group: group(caller),
            token: token(caller).to_owned(),
        }
    }

    /// True if this is the caller. A token never changes its tenant.
    pub(crate) fn is(&self, caller: &Caller) -> bool {
        self.token == token(caller)
    }
}

fn token(caller: &Caller) -> &str {
    caller.token.as_ref().unwrap_or(&caller.name)
}
