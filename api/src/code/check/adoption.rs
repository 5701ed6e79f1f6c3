//! Adoption of agents without a join string.

use super::{Code, MISSING};

pub(super) const fn check(code: Code) -> &'static str {
    match code {
        Code::AdoptionOff => {
            "The help of `fairlead server` names the flag. `fairlead cluster create NAME` registers a cluster and prints its join command."
        }
        Code::AdoptionRefused => "`fairlead adoption list` on the hub shows who refused it.",
        Code::AdoptionUnknown => {
            "`fairlead adoption list` shows the waiting agents with their ages; the newest line of the agent's log has the code that counts."
        }
        Code::AdoptionsFull => {
            "`fairlead adoption list` shows all waiting agents with their addresses. Each row ends with its code."
        }
        Code::AdoptionKeyDiffers => {
            "Compare the fingerprint in the agent's log, `kubectl logs -n fairlead deploy/fairlead-agent`, with `fairlead adoption list`, character by character."
        }
        _ => MISSING,
    }
}
