//! The part of a record that concerns running requests: access of the caller, and the end by the hub.

use std::{
    future::poll_fn,
    sync::{Arc, MutexGuard, atomic::Ordering},
    task::{Context, Poll},
};

use fairlead_api::{ClusterId, Failure, resources::RequestKind};
use fairlead_seam::{Caller, Grant};
use secrecy::SecretString;

use super::{
    inner::RequestRecord,
    running::{Ending, KnownFields, RunningState},
};
use crate::requests::RequestAccess;

impl RequestRecord {
    fn running(&self) -> &RunningState {
        &self.0.running
    }

    fn known(&self) -> MutexGuard<'_, KnownFields> {
        self.0.running.known()
    }

    pub(crate) fn kind(&self) -> RequestKind {
        self.running().kind
    }

    /// Enters the request into the table of running ones.
    pub(super) fn enter(&self, caller: &Arc<Caller>) {
        let mut known = self.known();
        let access = RequestAccess {
            caller: Arc::clone(caller),
            grant: None,
            cluster: known.cluster.clone(),
        };
        if known.access.replace(access).is_none() {
            drop(known);
            let weak = Arc::downgrade(&self.0);
            let address = Arc::as_ptr(&self.0).addr();
            self.0.table.insert(address, weak);
        }
    }

    pub(super) fn set_running_cluster(&self, cluster: &ClusterId) {
        self.known().cluster = Some(cluster.clone());
    }

    /// Notes a token that only its reviewer understands: it is sent there again while the request runs.
    pub(crate) fn set_reviewed_token(&self, token: SecretString) {
        let token = self.0.table.reviewed.enter(token);
        self.known().reviewed = Some(token);
    }

    pub(super) fn set_running_grant(&self, grant: &Grant) {
        if let Some(access) = &mut self.known().access {
            access.grant = Some(grant.clone());
        }
    }

    /// Notes the agent's session, by the address of its entry.
    pub(crate) fn set_session(&self, session: usize) {
        self.known().session = Some(session);
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
