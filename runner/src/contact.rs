//! Contacts of agents: programs end once there has been none for a while.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// Requests of agents: number of open ones, and time of the last one.
pub(crate) struct Contacts(Mutex<State>);

struct State {
    open: usize,
    last: Instant,
}

/// Request that is being answered.
pub(crate) struct Contact<'a>(&'a Contacts);

impl Contacts {
    pub(crate) fn new() -> Self {
        Contacts(Mutex::new(State {
            open: 0,
            last: Instant::now(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self) -> Contact<'_> {
        self.state().open += 1;
        Contact(self)
    }

    /// Completes once no agent has made contact for this time.
    pub(crate) async fn absent_for(&self, time: Duration) {
        loop {
            let until = {
                let state = self.state();
                let last = if state.open > 0 {
                    Instant::now()
                } else {
                    state.last
                };
                last + time
            };
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

impl Drop for Contact<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn open_request_counts_as_contact_until_it_ends() {
        let contacts = Contacts::new();
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        let working = async {
            tokio::time::sleep(minute / 2).await;
            let contact = contacts.begin();
            tokio::time::sleep(minute * 3).await;
            drop(contact);
        };
        tokio::join!(working, contacts.absent_for(minute));
        let waited = start.elapsed();
        assert!(
            waited >= minute * 9 / 2 && waited <= minute * 9 / 2 + minute,
            "{waited:?}"
        );
    }
}
