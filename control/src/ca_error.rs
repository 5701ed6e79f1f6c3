//! Errors of a rotation of the CA, and their codes.

use fairlead_api::{ClusterId, Code, Failure};
use fairlead_store::{Refusal, StoreError};

use crate::keys_error::KeysError;

/// Clusters that an error names.
const MAX_NAMED: usize = 10;

/// A rejected step of a rotation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaError {
    /// A rotation runs already.
    #[error("a rotation runs already")]
    Rotating,
    /// No rotation runs.
    #[error("no rotation runs")]
    NoRotation,
    /// Agents would be cut off.
    #[error("{0}")]
    Behind(String),
    /// A key cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The hub's certificates cannot be issued.
    #[error("{0}")]
    Certificates(#[from] Failure),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CaError {
    /// The clusters that a retirement would cut off.
    pub(super) fn behind(clusters: &[ClusterId]) -> Self {
        let named: Vec<_> = clusters
            .iter()
            .take(MAX_NAMED)
            .map(ClusterId::as_str)
            .collect();
        let more = clusters.len().saturating_sub(MAX_NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        CaError::Behind(format!(
            "{} clusters would have to enrol again: {}{more}",
            clusters.len(),
            named.join(", ")
        ))
    }
}

impl Refusal for CaError {}

impl From<CaError> for Failure {
    fn from(error: CaError) -> Self {
        match error {
            CaError::Rotating => Code::CaRotating.into(),
            CaError::NoRotation => Code::NoRotation.into(),
            CaError::Behind(clusters) => Failure::because(Code::CaBehind, clusters),
            CaError::Keys(error) => error.into(),
            CaError::Certificates(failure) => failure,
            CaError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_retirement_names_some_clusters_and_counts_all() {
        let of = |count: usize| {
            let ids = (0..count).map(|n| format!("c-{n}").parse().unwrap());
            Failure::from(CaError::behind(&ids.collect::<Vec<_>>()))
        };
        let few = of(2);
        assert_eq!(few.code, Code::CaBehind);
        assert!(
            few.cause
                .ends_with("2 clusters would have to enrol again: c-0, c-1"),
            "{few}"
        );
        let many = of(12);
        assert!(many.cause.contains("12 clusters") && many.cause.ends_with("c-9 and 2 more"));
    }
}
