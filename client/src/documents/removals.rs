//! Bundles that a change takes away from clusters. The hub refuses the change until it is confirmed.

use fairlead_api::{
    Code, Failure,
    delivery::{PlanHash, RemovedDeployment},
};

/// Number of deployments that a text names.
const MAX_NAMED_DEPLOYMENTS: usize = 20;

/// Removals that a refused change would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removals {
    /// Name of the removals, to be repeated with the change.
    pub confirm: PlanHash,
    /// The deployments, for people: `takes b-shop from c-a, b-web with its objects from c-b`.
    pub text: String,
}

impl Removals {
    /// Reads the refusal of a change.
    ///
    /// # Errors
    /// Other failures, unchanged.
    pub fn of(failure: Failure) -> Result<Self, Failure> {
        let details = failure.details.as_deref();
        let details = details.filter(|_| failure.code == Code::RemovalNotConfirmed);
        let Some((removed, confirm)) = details.and_then(RemovedDeployment::of_details) else {
            return Err(failure);
        };
        let named = removed.iter().take(MAX_NAMED_DEPLOYMENTS).map(|it| {
            let objects = if it.deletes { " with its objects" } else { "" };
            format!("{}{objects} from {}", it.bundle, it.cluster)
        });
        let mut named: Vec<_> = named.collect();
        if removed.len() > MAX_NAMED_DEPLOYMENTS {
            named.push(format!("{} more", removed.len() - MAX_NAMED_DEPLOYMENTS));
        }
        let text = match named.is_empty() {
            true => failure.cause,
            false => format!("takes {}", named.join(", ")),
        };
        Ok(Removals { confirm, text })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refused_removals_are_named() {
        let hash = format!("sha256:{}", "ab".repeat(32));
        let one =
            |cluster: String| json!({ "cluster": cluster, "bundle": "b-web", "deletes": false });
        let mut removed = vec![json!({ "cluster": "c-x", "bundle": "b-shop", "deletes": true })];
        removed.extend((0..21).map(|it| one(format!("c-{it}"))));
        let refusal = |removed: &[serde_json::Value]| {
            let details = json!({ "removed": removed, "confirm": hash });
            Failure::with_cause(Code::RemovalNotConfirmed, "two deployments are lost")
                .details(details)
        };
        let removals = Removals::of(refusal(&removed)).unwrap();
        assert_eq!(removals.confirm.as_str(), hash);
        let text = &removals.text;
        assert!(
            text.starts_with("takes b-shop with its objects from c-x, b-web from c-0, "),
            "{text}"
        );
        assert!(text.ends_with("b-web from c-18, 2 more"), "{text}");
        // Bundles of other tenants are not named.
        assert_eq!(
            Removals::of(refusal(&[])).unwrap().text,
            "two deployments are lost"
        );
        let other = Failure::new(Code::NotAllowed);
        assert_eq!(Removals::of(other.clone()), Err(other));
    }
}
