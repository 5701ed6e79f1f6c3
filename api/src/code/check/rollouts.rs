//! Rollouts, and states of deployments that the hub decides.

use super::MISSING;
use crate::Code;

/// How to find the cause of a code of rollouts.
pub(super) const fn releases(code: Code) -> &'static str {
    match code {
        Code::RolloutVerb => {
            "Run `fairlead rollout status BUNDLE`: it prints the state. Only the newest rollout of a bundle takes verbs."
        }
        Code::StillTargeted => {
            "`fairlead bundle get BUNDLE -o yaml` prints the targets, and `fairlead cluster get CLUSTER -o yaml` the labels of the cluster."
        }
        Code::NoSpec => {
            "The cause names each variable without value. `fairlead cluster get CLUSTER -o yaml` prints facts and annotations of the cluster."
        }
        Code::ClusterOffline => {
            "Run `fairlead cluster get CLUSTER`: it prints the last error of the agent's session."
        }
        Code::NotReported => {
            "Look for errors of deliveries in the agent's log: `kubectl -n fairlead logs deploy/fairlead-agent`."
        }
        Code::DeliverySuspended => {
            "Run `fairlead deployment get CLUSTER BUNDLE`: its reason names the suspended one of both."
        }
        Code::WaveWaits => {
            "Run `fairlead rollout status BUNDLE`: it prints the current wave and the clusters that it waits for."
        }
        Code::RolloutStops => {
            "Run `fairlead rollout status BUNDLE`: it prints the reason. `fairlead deployment list --bundle BUNDLE --state Failed` lists failed clusters."
        }
        Code::ReleasesStopped => {
            "Run `fairlead ca status`: it prints the time of the restore that awaits a confirmation."
        }
        Code::NotTargeted => {
            "`fairlead deployment get CLUSTER BUNDLE` prints the state, and `fairlead bundle get BUNDLE -o yaml` the targets that no longer match the labels of the cluster."
        }
        Code::RemovalRuns => {
            "Run `fairlead run list --cluster CLUSTER`: it lists the removal. `fairlead run logs RUN` prints its steps."
        }
        _ => MISSING,
    }
}
