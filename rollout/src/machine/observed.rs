//! Inputs of a rollout about one cluster.

use fairlead_api::{
    ClusterId,
    delivery::{DeploymentReport, DeploymentState},
};

use crate::clock::UnixMillis;

/// Report of a cluster about the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterReport<'a> {
    /// State of the deployment.
    pub state: DeploymentState,
    /// Generation that the state is about: the newest one that the agent has accepted.
    pub generation: u64,
    /// Generation of the objects in the cluster.
    pub applied: u64,
    /// True if the agent retries no more by itself.
    pub retries_exhausted: bool,
    /// Start of the state, by the hub's clock.
    pub since: UnixMillis,
    /// Cause of a state other than `Ready`. Equal texts are counted together.
    pub cause: Option<&'a str>,
}

impl<'a> ClusterReport<'a> {
    /// The report of an agent in the state since this time.
    #[must_use]
    pub fn of(report: &'a DeploymentReport, since: UnixMillis) -> Self {
        ClusterReport {
            state: report.state,
            generation: report.generation,
            applied: report.applied,
            retries_exhausted: report.retries_exhausted,
            since,
            cause: report.reason.as_deref(),
        }
    }

    /// True if the agent knows this generation.
    pub(super) fn is_about(&self, generation: u64) -> bool {
        self.generation >= generation
    }

    pub(super) fn is_ready(&self, generation: u64) -> bool {
        self.state == DeploymentState::Ready && self.applied >= generation
    }

    pub(super) fn is_failed(&self, generation: u64) -> bool {
        self.state == DeploymentState::Failed && self.retries_exhausted && self.is_about(generation)
    }
}

/// The hub's knowledge of a cluster at the start or after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutObservation<'a> {
    /// True if an agent is connected.
    pub connected: bool,
    /// Last report; `None` before the first.
    pub report: Option<ClusterReport<'a>>,
}

/// A cluster that begins to match during a rollout.
#[derive(Debug, Clone, Copy)]
pub struct NewTarget<'a> {
    /// The cluster.
    pub cluster: &'a ClusterId,
    /// Its wave, of [`RolloutMachine::wave_of_new`](crate::RolloutMachine::wave_of_new).
    pub wave: u32,
    /// Generation until its wave is done; 0 for none.
    pub before: u64,
    /// Status and last report.
    pub observed: RolloutObservation<'a>,
}
