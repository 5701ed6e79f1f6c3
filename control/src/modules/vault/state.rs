//! Status of a cluster's access. The answer of Vault selects the next phase:
//!
//! | from      | as desired | refused  | away or sealed               |
//! |-----------|------------|----------|------------------------------|
//! | `waiting` | `ready`    | `failed` | `waiting`, with the reason   |
//! | `ready`   | `ready`    | `failed` | `ready`, with the reason     |
//! | `failed`  | `ready`    | `failed` | `waiting`, with the reason   |
//!
//! A status is valid for one desired state. With other keys or settings it reads `waiting`.

use std::sync::Arc;

use fairlead_api::resources::{RepoDrift, VaultAccess, VaultAccessState, VaultPhase};
use fairlead_registry::VaultStatus;
use fairlead_store::model::{Cluster, VaultNames, VaultState};
use fairlead_vault::{SecretAccess, VaultError};
use time::OffsetDateTime;

use super::desired::{names, planned_access};
use crate::reconciling;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 700;

/// Status before the first request, with the names of the parts that Vault may have from then on.
pub(super) fn begun(names: VaultNames, now: OffsetDateTime) -> VaultState {
    VaultState {
        phase: VaultPhase::Waiting,
        reason: None,
        of: String::new(),
        since: now,
        tried: None,
        drift: None,
        names,
    }
}

/// Status after an answer of Vault for the access with this hash. Equal to `last` if the answer only
/// repeats it.
pub(super) fn state_after(
    last: &VaultState,
    of: &str,
    result: &Result<Vec<String>, VaultError>,
    now: OffsetDateTime,
) -> VaultState {
    let is_known = last.of == of;
    let was_ready = is_known && last.phase == VaultPhase::Ready;
    let mut next = VaultState {
        of: of.to_owned(),
        reason: None,
        tried: Some(now),
        drift: last.drift.clone().filter(|_| is_known),
        ..last.clone()
    };
    match result {
        Ok(corrected) => {
            if was_ready && !corrected.is_empty() {
                next.drift = Some(RepoDrift {
                    at: now,
                    corrected: corrected.clone(),
                });
            }
            next.phase = VaultPhase::Ready;
        }
        Err(error) => {
            next.phase = match error {
                _ if was_ready && !error.is_refusal() => VaultPhase::Ready,
                VaultError::Sealed | VaultError::Away(_) | VaultError::Throttled { .. } => {
                    VaultPhase::Waiting
                }
                _ => VaultPhase::Failed,
            };
            next.reason = Some(line(&error.to_string()));
        }
    }
    let is_same = is_known && (last.phase, &last.reason) == (next.phase, &next.reason);
    if !is_same || next.phase != last.phase {
        next.since = if last.phase == next.phase && is_known {
            last.since
        } else {
            now
        };
    }
    // Repeated results cause no change of the record.
    match is_same && next.drift == last.drift {
        true => last.clone(),
        false => next,
    }
}

/// The reason on one line, truncated.
pub(super) fn line(reason: &str) -> String {
    reconciling::line(reason, MAX_REASON_CHARS)
}

/// Status of accesses for documents.
pub(crate) struct VaultStates(pub(crate) Option<Arc<dyn SecretAccess>>);

impl VaultStatus for VaultStates {
    fn of_cluster(&self, cluster: &Cluster) -> Option<VaultAccess> {
        let access = self.0.as_deref()?;
        let names = names(access, cluster);
        let known = cluster.vault.as_deref().filter(|it| it.names == names);
        Some(VaultAccess {
            mount: names.mount.clone(),
            method: access.method(&cluster.tenant, &cluster.id).to_owned(),
            role: access.role().to_owned(),
            path: format!("{}/{}", names.kv, names.path),
            state: shown(access, cluster, known),
        })
    }
}

fn shown(
    access: &dyn SecretAccess,
    cluster: &Cluster,
    known: Option<&VaultState>,
) -> VaultAccessState {
    let (known, reason) = match (planned_access(access, cluster), known) {
        (Ok(planned), Some(known)) if known.of == planned.of => (Some(known), None),
        (Ok(_), _) => (
            None,
            Some("not requested from Vault in its current form yet".to_owned()),
        ),
        (Err(error), known) => (known, Some(error.to_string())),
    };
    match known {
        None => VaultAccessState {
            phase: VaultPhase::Waiting,
            reason,
            since: None,
            last_try: None,
            drift: None,
        },
        Some(known) => VaultAccessState {
            phase: known.phase,
            reason: reason.or_else(|| known.reason.clone()),
            since: Some(known.since),
            last_try: known.tried,
            drift: known.drift.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;

    const START: OffsetDateTime = datetime!(2026-11-22 12:00 UTC);

    fn first() -> VaultState {
        let name = "fairlead-t-acme-c-edge".to_owned();
        let names = VaultNames {
            owner: "c-edge of t-acme".to_owned(),
            mount: name.clone(),
            policy: name,
            kv: "clusters/kv".to_owned(),
            path: "t-acme/c-edge".to_owned(),
        };
        begun(names, START)
    }

    fn after(last: &VaultState, result: Result<Vec<String>, VaultError>) -> VaultState {
        state_after(last, "it", &result, START + Duration::HOUR)
    }

    #[test]
    fn answers_move_phases_as_in_the_table() {
        use VaultPhase::{Failed, Ready, Waiting};
        let taken = || Err(VaultError::Taken("the policy x".to_owned()));
        let waiting = first();
        let ready = after(&waiting, Ok(Vec::new()));
        let failed = after(&waiting, taken());
        for (from, phases) in [
            (&waiting, [Ready, Failed, Waiting]),
            (&ready, [Ready, Failed, Ready]),
            (&failed, [Ready, Failed, Waiting]),
        ] {
            let results = [Ok(Vec::new()), taken(), Err(VaultError::Sealed)];
            for (result, expected) in results.into_iter().zip(phases) {
                let reason = result.as_ref().err().map(ToString::to_string);
                let next = after(from, result);
                assert_eq!((next.phase, &next.reason), (expected, &reason), "{from:?}");
            }
        }
    }

    #[test]
    fn repeated_answers_are_no_change() {
        let ready = after(&first(), Ok(Vec::new()));
        let later =
            |last: &VaultState, result| state_after(last, "it", &result, START + Duration::DAY);
        assert_eq!(later(&ready, Ok(Vec::new())), ready);
        let sealed = later(&ready, Err(VaultError::Sealed));
        assert_eq!(sealed.since, ready.since, "the phase is the same");
        assert!(
            sealed
                .reason
                .as_deref()
                .unwrap()
                .starts_with("FL-4150: Vault is sealed. ")
        );
        assert_eq!(later(&sealed, Err(VaultError::Sealed)), sealed);
        assert_eq!(later(&sealed, Ok(Vec::new())).reason, None);
    }

    #[test]
    fn corrections_of_a_ready_access_are_drift() {
        let made = || Ok(vec!["policy".to_owned()]);
        let ready = after(&first(), made());
        assert_eq!(ready.drift, None, "a creation is no drift");
        let drifted = after(&ready, made());
        assert_eq!(drifted.drift.as_ref().unwrap().corrected, ["policy"]);
        assert_eq!(
            after(&drifted, Ok(Vec::new())),
            drifted,
            "the last drift stays shown"
        );
        let other = state_after(&ready, "other", &made(), START);
        assert_eq!(other.drift, None, "a changed wish is no drift");
    }
}
