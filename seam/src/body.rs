//! Terms for reading the body of a request: its maximum size, and its share of the memory budget.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
    /// Shares that the memory counts against; empty without limits.
    shares: Vec<Arc<Share>>,
    taken: Vec<Taken>,
    refusal: Option<AuthenticateError>,
}

impl BodyTerms {
    /// Terms without limits, for senders with limits of their own.
    #[must_use]
    pub fn unlimited() -> Self {
        BodyTerms {
            shares: Vec::new(),
            taken: Vec::new(),
            refusal: None,
        }
    }

    /// Terms within all of these shares; `refusal` makes the sender a stranger.
    pub fn within(shares: Vec<Arc<Share>>, refusal: Option<AuthenticateError>) -> Self {
        BodyTerms {
            shares,
            taken: Vec::new(),
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
        if self.taken.is_empty() {
            let all = self.shares.iter().map(|share| share.take(bytes));
            self.taken = all.collect::<Option<_>>().ok_or(Code::BodyMemoryFull)?;
            return Ok(());
        }
        match self.taken.iter_mut().all(|taken| taken.grow(bytes)) {
            true => Ok(()),
            false => Err(Code::BodyMemoryFull.into()),
        }
    }
}

/// Terms for the bodies of a sender without a [`Principal`](crate::Principal), in the extensions of its request. Clones
/// share the memory, which is held until the last one is dropped.
#[derive(Clone)]
pub struct SharedBodyTerms(Arc<Mutex<BodyTerms>>);

impl SharedBodyTerms {
    /// Terms within these shares.
    #[must_use]
    pub fn within(shares: Vec<Arc<Share>>) -> Self {
        SharedBodyTerms(Arc::new(Mutex::new(BodyTerms::within(shares, None))))
    }

    /// Terms for one body.
    #[must_use]
    pub fn terms(&self) -> BodyTerms {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        BodyTerms::within(kept.shares.clone(), None)
    }

    /// Keeps the memory of a body until the request has ended.
    pub fn keep_memory(&self, mut terms: BodyTerms) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.taken.append(&mut terms.taken);
    }
}
