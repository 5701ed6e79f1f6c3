//! How to find the cause of a command of delivery that ended without success.

use super::{Code, MISSING};

pub(super) const fn ended(code: Code) -> &'static str {
    match code {
        Code::RolloutStopped => {
            "Run `fairlead rollout status BUNDLE`: it prints the waves and the reason. `fairlead deployment list --bundle BUNDLE --state Failed` lists the clusters."
        }
        Code::ClustersDiffer => {
            "Read the objects above. `fairlead diff DIR --cluster CLUSTER -o json` prints all of them."
        }
        Code::RunFailed => {
            "Run `fairlead run get RUN`: it prints the result. `fairlead run logs RUN` prints the steps."
        }
        _ => MISSING,
    }
}
