//! How to find the cause of upgrades of agents that do not succeed.

use super::{Code, MISSING};

pub(super) const fn check(code: Code) -> &'static str {
    match code {
        Code::AgentUpgradeRefused => {
            "`fairlead upgrade get UPGRADE` prints the cause for each cluster. `kubectl -n fairlead auth can-i patch deployment/fairlead-agent --as system:serviceaccount:fairlead:fairlead-agent` shows the right."
        }
        Code::AgentRolledBack => {
            "`fairlead upgrade get UPGRADE` prints the cause for each cluster. `kubectl -n fairlead get deployment fairlead-agent -o yaml` shows it in the annotation `fairlead/upgrade`."
        }
        Code::AgentUpgradeUnreported => {
            "Run `fairlead cluster sessions CLUSTER -o wide`: it shows the version of each connected agent. `kubectl -n fairlead get pods` at the site shows the pods."
        }
        Code::UpgradeVersion => "`fairlead version --fleet` shows the versions of hub and agents.",
        Code::UpgradeBusy => {
            "`fairlead upgrade list` shows which upgrades are running or paused, and `fairlead upgrade get UPGRADE` their clusters."
        }
        Code::NoSuchUpgrade => "`fairlead upgrade list` shows all upgrades that you may see.",
        Code::UpgradeImage => {
            "The hub's own image for agents is `--image` of `fairlead server`; one with a digest names no other version."
        }
        Code::UpgradeState => "`fairlead upgrade list` shows the state of each upgrade.",
        Code::UpgradeStopped => "`fairlead upgrade get UPGRADE` shows the state and the reason.",
        _ => MISSING,
    }
}
