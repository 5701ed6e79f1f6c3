//! The part of a record that concerns running requests: access of the caller, and the end by the hub.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use fairlead_api::{Failure, resources::RequestKind};
use secrecy::SecretString;

use super::{
    inner::RequestRecord,
    running::{Ending, RunningState},
};

impl RequestRecord {
    fn running(&self) -> &RunningState {
        &self.0.running
    }

    pub(crate) fn kind(&self) -> RequestKind {
        self.running().kind
    }

    /// Enters the request into the table of running ones.
    pub(super) fn enter(&self) {
        let address = Arc::as_ptr(&self.0).addr();
        self.0.table.insert(address, Arc::downgrade(&self.0));
    }

    /// Notes a token that only its reviewer understands: it is sent there again while the request runs.
    pub(crate) fn set_reviewed_token(&self, token: SecretString) {
        let token = self.0.table.reviewed.enter(token);
        self.0.fields().reviewed = Some(token);
    }

    /// Notes the agent's session, by the address of its entry.
    pub(crate) fn set_session(&self, session: usize) {
        self.0.fields().session = Some(session);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.running().ending.get().is_some()
    }

    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.running().ending.get()
    }

    /// Like [`RequestRecord::ending`]; wakes the task at the end, and repeatedly until the record is dropped.
    pub(crate) fn poll_ending(&self, cx: &mut Context<'_>) -> Option<&Ending> {
        self.running().waker.register(cx.waker());
        self.running().ending.get()
    }

    /// Completes with the reason when the hub ends the request before its answer, which is that reason then.
    pub(crate) async fn ended_before_answer(&self) -> Failure {
        let failure = self.ended().await;
        self.running()
            .is_end_reported
            .store(true, Ordering::Release);
        failure
    }

    /// True if the answer is the reason of the end.
    pub(crate) fn is_end_reported(&self) -> bool {
        self.running().is_end_reported.load(Ordering::Acquire)
    }

    /// Completes with the reason when the hub ends the request. One task at a time may wait for it.
    pub(crate) async fn ended(&self) -> Failure {
        poll_fn(|cx| match self.poll_ending(cx) {
            Some(ending) => Poll::Ready(ending.failure.clone()),
            None => Poll::Pending,
        })
        .await
    }
}
