//! Runs at the hub: commands that agents claim, runs that agents make by themselves, and their logs.
//!
//! The rows in the database are the only truth, because several hubs may serve the agents of one cluster. A change reads and
//! writes the runs of one deployment in one transaction.

mod agent_routes;
mod claim;
mod commands;
mod create;
mod diff;
mod keeper;
mod log;
mod open;
mod own;
mod read;
mod record;
mod refusal;
mod report;
mod retention;
mod routes;
mod stream;
mod waiting;

use std::sync::Arc;

use fairlead_api::{BundleId, ClusterId, RunId};
use fairlead_delivery_store::RunRow;
use fairlead_rollout::UnixMillis;
use fairlead_store::StoreError;
use tokio::sync::{Notify, watch};

use crate::parts::DeliveryParts;

use self::{
    open::OpenRuns,
    report::ReportedSteps,
    waiting::{CommandCounts, WaitingCommands},
};

pub(crate) use self::{
    agent_routes::agent_routes, create::NewCommand, refusal::no_such_run, routes::routes,
};

/// Runs of all deployments.
pub(crate) struct Runs {
    pub(crate) parts: DeliveryParts,
    waiting: WaitingCommands,
    steps: ReportedSteps,
    /// Wakes followers of logs after each change of this hub.
    changes: watch::Sender<u64>,
    /// Wakes the keeper after a change of a command.
    kept: Notify,
    draining: watch::Sender<bool>,
}

impl Runs {
    /// Runs in the rows of a store.
    pub(crate) fn new(parts: DeliveryParts) -> Arc<Self> {
        Arc::new(Runs {
            parts,
            waiting: WaitingCommands::default(),
            steps: ReportedSteps::default(),
            changes: watch::Sender::new(0),
            kept: Notify::new(),
            draining: watch::Sender::new(false),
        })
    }

    /// Number of commands that the agent of this cluster can claim now.
    #[allow(dead_code, reason = "the desired state of clusters will carry it")]
    pub(crate) fn waiting(&self, cluster: &ClusterId) -> u32 {
        self.waiting.of(cluster)
    }

    /// Numbers of waiting commands of all clusters, after each change.
    #[allow(dead_code, reason = "the desired state of clusters will carry it")]
    pub(crate) fn watch_waiting(&self) -> watch::Receiver<CommandCounts> {
        self.waiting.watch()
    }

    fn now(&self) -> UnixMillis {
        self.parts.clock.now().into()
    }

    /// Decides on the runs of a deployment in its turn. `also` is a run that may have ended.
    async fn change<T>(
        &self,
        deployment: (&ClusterId, &BundleId),
        also: Option<&RunId>,
        decide: impl FnOnce(&mut OpenRuns, UnixMillis) -> T,
    ) -> Result<T, StoreError> {
        let decide = decided(self.now(), decide);
        let answer = self.parts.runs.change(deployment, also, decide).await??;
        self.announce();
        self.kept.notify_one();
        Ok(answer)
    }

    /// Like [`Runs::change`], for an agent's own run: the agent reports it again after a loss.
    async fn record<T>(
        &self,
        deployment: (&ClusterId, &BundleId),
        also: &RunId,
        decide: impl FnOnce(&mut OpenRuns, UnixMillis) -> T,
    ) -> Result<T, StoreError> {
        let decide = decided(self.now(), decide);
        let recorded = self.parts.runs.record(deployment, Some(also), decide);
        let answer = recorded.await??;
        self.announce();
        Ok(answer)
    }

    /// Wakes followers.
    fn announce(&self) {
        self.changes
            .send_modify(|turn| *turn = turn.wrapping_add(1));
    }
}

/// The decision on the rows of a deployment.
fn decided<T>(
    now: UnixMillis,
    decide: impl FnOnce(&mut OpenRuns, UnixMillis) -> T,
) -> impl FnOnce(Vec<RunRow>) -> (Vec<RunRow>, Result<T, StoreError>) {
    move |rows| match OpenRuns::of(rows) {
        Ok(mut open) => {
            let answer = decide(&mut open, now);
            (open.into_changed(), Ok(answer))
        }
        Err(error) => (Vec::new(), Err(error)),
    }
}

#[cfg(test)]
mod tests;
