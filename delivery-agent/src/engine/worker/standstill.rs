//! Orders not to correct the objects of a deployment: taken from the hub, noted in the journal, handed to the observer.

use tracing::{info, warn};

use super::{CorrectionStop, JournalState, Standstill, Wish, Worker};

impl Worker {
    /// Reason not to correct the objects now.
    pub(super) fn correction_stop(&self) -> Option<CorrectionStop> {
        let is_paused = self.shared.site.borrow().is_paused;
        let of_site = is_paused.then_some(CorrectionStop::SitePaused);
        self.standstill.map(CorrectionStop::from).or(of_site)
    }

    /// Takes the hub's order over. A changed one is observed at once, even if the journal cannot be written now.
    pub(super) async fn follow_standstill(&mut self) {
        match self.wish() {
            Wish::Unknown => {}
            Wish::Absent => self.standstill = Some(Standstill::NotTargeted),
            Wish::Named(desired) => {
                self.standstill = desired.suspended.then_some(Standstill::Suspended);
            }
        }
        self.note_standstill().await;
        if self.observed_stop == Some(self.correction_stop()) {
            return;
        }
        info!(bundle = %self.bundle(), stop = ?self.correction_stop(), "corrections stopped or resumed");
        // Findings of before mean nothing under another order.
        self.shared.observer.release(self.bundle()).await;
        self.observe().await;
    }

    /// Notes the order in the journal, so that a restarted agent follows it without the hub.
    async fn note_standstill(&self) {
        let (standstill, is_written) = (self.standstill, self.journal.uid().await.is_some());
        let known = self.journal.state().await.record.standstill;
        if known == standstill || !is_written {
            return;
        }
        let change = |state: &mut JournalState| {
            // Nobody cared for the objects: a GitOps tool that is adopted again has its own source now.
            state.record.needs_apply |= known == Some(Standstill::NotTargeted);
            state.record.standstill = standstill;
        };
        if let Err(failure) = self.journal.update(change).await {
            warn!(bundle = %self.bundle(), cause = %failure, "order not to correct not noted");
        }
    }
}
