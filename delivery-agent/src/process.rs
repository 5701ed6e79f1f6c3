//! Identity of this process, so that a later one knows whether an earlier one is dead.

use serde::{Deserialize, Serialize};

/// Process that works on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Place with at most one process of a kind: UID of a pod, or boot of a host.
    place: String,
    /// Number of the process on a host; missing in a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Random name of the process.
    nonce: String,
}

impl ProcessIdentity {
    /// This process in a pod. A pod runs one agent, so that any other process of the same pod is dead.
    #[must_use]
    pub fn of_pod(uid: &str) -> Self {
        Self {
            place: format!("pod:{uid}"),
            pid: None,
            nonce: nonce(),
        }
    }

    /// This process on a host.
    #[must_use]
    pub fn of_host() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let host = read("/proc/sys/kernel/hostname");
        Self {
            place: format!("host:{}:{}", host.trim(), boot.trim()),
            pid: Some(std::process::id()),
            nonce: nonce(),
        }
    }

    /// Random name of the process.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// True if runs of `other` end on their own no more: it is this process, whose runs are known, or a dead one.
    #[must_use]
    pub fn knows_end_of(&self, other: &ProcessIdentity) -> bool {
        if other.nonce == self.nonce {
            return true;
        }
        if other.place != self.place {
            return false;
        }
        match other.pid {
            None => true,
            // A process with the same number may be another one; then the long wait does no harm.
            Some(pid) => !std::path::Path::new(&format!("/proc/{pid}")).exists(),
        }
    }
}

fn nonce() -> String {
    let mut bytes = [0; 8];
    // Without random bytes the number of the process must do.
    if getrandom::fill(&mut bytes).is_err() {
        return std::process::id().to_string();
    }
    fairlead_api::hex::encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_process_of_the_same_pod_is_dead_and_of_another_pod_unknown() {
        let own = ProcessIdentity::of_pod("a");
        assert!(own.knows_end_of(&own));
        assert!(own.knows_end_of(&ProcessIdentity::of_pod("a")));
        assert!(!own.knows_end_of(&ProcessIdentity::of_pod("b")));
    }

    #[test]
    fn process_of_the_host_is_dead_without_its_number() {
        let own = ProcessIdentity::of_host();
        let mut other = ProcessIdentity::of_host();
        assert!(!own.knows_end_of(&other), "this process lives");
        other.pid = Some(u32::MAX);
        assert!(own.knows_end_of(&other));
    }
}
