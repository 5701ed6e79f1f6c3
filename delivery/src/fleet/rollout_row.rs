//! Rows of rollouts: the durable step, and its display after the end.

use fairlead_api::{
    BundleId, RolloutId,
    delivery::{Rollout, WaveStatus},
};
use fairlead_delivery_store::RolloutRow;
use fairlead_rollout::{RolloutMachine, RolloutStep};
use fairlead_store::model::hex;
use serde::{Deserialize, Serialize};

/// Limit of an id in characters.
const MAX_ID_CHARS: usize = 63;
/// Characters of the hash in the id of a rollout of a bundle with a long id.
const HASH_CHARS: usize = 8;

/// Body of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolloutBody {
    /// Durable step of the machine.
    pub(crate) step: RolloutStep,
    /// Generation before.
    pub(crate) from: u64,
    /// True: the suspension of the bundle paused the rollout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) paused_by_suspension: bool,
    /// Reason of the state at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Progress at that time.
    pub(crate) waves: Vec<WaveStatus>,
}

impl RolloutBody {
    pub(crate) fn of(machine: &RolloutMachine, paused_by_suspension: bool) -> Self {
        RolloutBody {
            step: machine.step(),
            from: machine.from(),
            paused_by_suspension,
            reason: machine.reason(),
            waves: machine.waves(),
        }
    }

    /// Reads a row; `None` if it is damaged.
    pub(crate) fn read(row: &RolloutRow) -> Option<Self> {
        serde_json::from_str(&row.body).ok()
    }

    pub(crate) fn to_json(&self) -> String {
        // Serialization of texts and numbers cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The rollout of a row as people read it; `None` if the row is damaged.
pub(crate) fn shown(row: &RolloutRow) -> Option<Rollout> {
    let body = RolloutBody::read(row)?;
    Some(Rollout {
        id: row.id.clone(),
        bundle: row.bundle.clone(),
        from: body.from,
        to: row.generation,
        state: row.state,
        reason: body.reason,
        waves: body.waves,
    })
}

/// Id of the rollout of a generation, like `r-shop-8`: each hub makes the same one, so a generation has one rollout.
pub(crate) fn rollout_id(bundle: &BundleId, generation: u64) -> Option<RolloutId> {
    let name = bundle.as_str();
    let name = name.strip_prefix(BundleId::PREFIX).unwrap_or(name);
    let end = format!("-{generation}");
    let max_name = MAX_ID_CHARS - RolloutId::PREFIX.len() - end.len();
    let name = match name.len() <= max_name {
        true => name.to_owned(),
        false => {
            let start: String = name.chars().take(max_name - HASH_CHARS - 1).collect();
            let hash: String = hex::hash_of(&name).chars().take(HASH_CHARS).collect();
            format!("{}-{hash}", start.trim_end_matches('-'))
        }
    };
    format!("{}{name}{end}", RolloutId::PREFIX).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollouts_of_long_ids_have_ids_of_their_own() {
        let id = |bundle: &str, generation| rollout_id(&bundle.parse().unwrap(), generation);
        assert_eq!(id("b-shop", 8).unwrap().as_str(), "r-shop-8");
        let long = |last: &str| format!("b-{}{last}", "x".repeat(60));
        let (one, other) = (id(&long("a"), u64::MAX), id(&long("b"), u64::MAX));
        assert!(one.is_some() && one != other, "{one:?} {other:?}");
        let dashes = format!("b-a{}b", "-".repeat(58));
        assert!(id(&dashes, 1).is_some());
    }
}
