//! Reason of a halted rollout.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Failures in a wave, with their most frequent causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HaltReason {
    /// Name of the wave.
    pub wave: String,
    /// Failed clusters.
    pub failed: u32,
    /// Clusters of the wave connected at least once.
    pub participants: u32,
    /// Tolerated failures.
    pub max_failures: u32,
    /// Causes, most frequent first, at most 3.
    pub causes: Vec<FailureCause>,
}

/// A cause and its clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCause {
    /// Sentence of the clusters' reports.
    pub text: String,
    /// Number of clusters.
    pub clusters: u32,
}

impl fmt::Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HaltReason {
            wave,
            failed,
            participants,
            max_failures,
            causes,
        } = self;
        write!(
            f,
            "{failed} of {participants} clusters of wave {wave} failed, {max_failures} are tolerated{}",
            Listed(causes)
        )?;
        f.write_str("; deploy a corrected version, roll back, retry, or resume")
    }
}

/// Causes at the end of a sentence; nothing without causes.
pub(super) struct Listed<'a>(pub(super) &'a [FailureCause]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, cause) in self.0.iter().enumerate() {
            let divider = if at == 0 { ": " } else { ", " };
            write!(f, "{divider}{}x {:?}", cause.clusters, cause.text)?;
        }
        Ok(())
    }
}
