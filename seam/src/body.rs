//! Terms for reading the body of a request: its maximum size, and its share of the memory budget.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};

use crate::{
    error::AuthenticateError,
    fair_pool::{Share, Taken},
};

/// Maximum size of a stranger's body, in bytes.
pub const MAX_STRANGER_BODY_BYTES: usize = 64 * 1024;
/// Deadline for the arrival of a body.
const BODY_DEADLINE: Duration = Duration::from_secs(30);
const STRANGER_BODY_DEADLINE: Duration = Duration::from_secs(10);

/// Terms for the body of one request. They hold its memory until they are dropped.
pub struct BodyTerms {
    share: Option<Arc<Share>>,
    taken: Option<Taken>,
    refusal: Option<AuthenticateError>,
}

impl BodyTerms {
    /// Terms without limits, for senders with limits of their own.
    #[must_use]
    pub fn unlimited() -> Self {
        BodyTerms {
            share: None,
            taken: None,
            refusal: None,
        }
    }

    /// Terms within a share; `refusal` makes the sender a stranger.
    pub fn within(share: Arc<Share>, refusal: Option<AuthenticateError>) -> Self {
        BodyTerms {
            share: Some(share),
            taken: None,
            refusal,
        }
    }

    /// Deadline for the arrival of the body.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        match self.refusal {
            Some(_) => STRANGER_BODY_DEADLINE,
            None => BODY_DEADLINE,
        }
    }

    /// The sender's own error, if only an authenticated caller may send a body of this length.
    #[must_use]
    pub fn refusal(&self, length: u64) -> Option<&AuthenticateError> {
        let refusal = self.refusal.as_ref();
        refusal.filter(|_| length > MAX_STRANGER_BODY_BYTES as u64)
    }

    /// Takes memory from the budget.
    ///
    /// # Errors
    /// `FL-1310`
    pub fn take(&mut self, bytes: usize) -> Result<(), Failure> {
        let Some(share) = &self.share else {
            return Ok(());
        };
        let granted = match &mut self.taken {
            Some(taken) => taken.grow(bytes),
            None => {
                self.taken = share.take(bytes);
                self.taken.is_some()
            }
        };
        match granted {
            true => Ok(()),
            false => Err(Code::BodyMemoryFull.into()),
        }
    }
}
