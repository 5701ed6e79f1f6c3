//! Status of a repository. The answer of its server selects the next phase:
//!
//! | from      | as desired | refused  | away                       |
//! |-----------|------------|----------|----------------------------|
//! | `unknown` | `created`  | `failed` | `unknown`, with the reason |
//! | `created` | `created`  | `failed` | `created`                  |
//! | `failed`  | `created`  | `failed` | `failed`                   |
//!
//! A status is valid for one desired state. With another URL or key, or without a responsible
//! server, the status reads `unknown`; no write is needed.

use std::borrow::Cow;

use fairlead_registry::{Effective, RepoStatus, ShownRepoState};
use fairlead_store::model::{Cluster, ClusterTemplate, RepoPhase, RepoState, Tenant};
use time::OffsetDateTime;

use super::{DesiredRepo, GitServerError, GitServers, ReportedRepo};

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// Status of the repository with hash `of` after an answer of its server.
pub(super) fn state_after(
    before: Option<&RepoState>,
    of: &str,
    result: &Result<ReportedRepo, GitServerError>,
    now: OffsetDateTime,
) -> RepoState {
    let before = before.filter(|it| it.of == of);
    let (phase, reason) = match (result, before) {
        (Ok(_), _) => (RepoPhase::Created, None),
        (Err(GitServerError::Rejected(reason)), _) => (RepoPhase::Failed, Some(line(reason))),
        (Err(GitServerError::Unavailable(_)), Some(known)) if known.phase != RepoPhase::Unknown => {
            return known.clone();
        }
        (Err(GitServerError::Unavailable(reason)), _) => (RepoPhase::Unknown, Some(line(reason))),
    };
    match before {
        Some(known) if (known.phase, &known.reason) == (phase, &reason) => known.clone(),
        _ => RepoState {
            phase,
            reason,
            of: of.to_owned(),
            since: now,
        },
    }
}

/// The reason on one line, truncated.
fn line(reason: &str) -> String {
    let words = reason.split(|c: char| c.is_control() || c.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_REASON_CHARS).collect()
}

impl RepoStatus for GitServers {
    fn of_tenant<'a>(&self, tenant: &'a Tenant) -> Option<ShownRepoState<'a>> {
        tenant.git_repo.as_ref()?;
        let desired = || DesiredRepo::of_tenant(tenant);
        Some(shown(self, desired, tenant.repo_state.as_ref()))
    }

    fn of_cluster<'a>(
        &self,
        cluster: &'a Cluster,
        template: Option<&ClusterTemplate>,
    ) -> Option<ShownRepoState<'a>> {
        if !Effective::of(cluster, template).has_repo() {
            return None;
        }
        let desired = || DesiredRepo::of_cluster(cluster, template);
        Some(shown(self, desired, cluster.repo_state.as_ref()))
    }
}

fn shown<'a>(
    servers: &GitServers,
    desired: impl FnOnce() -> Option<DesiredRepo>,
    known: Option<&'a RepoState>,
) -> ShownRepoState<'a> {
    const UNSERVED: &str = "no Git server of this hub serves this URL";
    if servers.are_none() {
        return ShownRepoState::unknown(UNSERVED);
    }
    let Some(desired) = desired() else {
        return ShownRepoState::unknown("the repository is unmanaged");
    };
    if servers.of(&desired).is_none() {
        return ShownRepoState::unknown(UNSERVED);
    }
    match known.filter(|known| known.of == desired.hash()) {
        None => ShownRepoState::unknown("not requested from its Git server in its current form"),
        Some(known) => ShownRepoState {
            phase: known.phase,
            reason: known.reason.as_deref().map(Cow::Borrowed),
            since: Some(known.since),
        },
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;

    const START: OffsetDateTime = datetime!(2026-11-22 12:00 UTC);

    fn made() -> Result<ReportedRepo, GitServerError> {
        Ok(ReportedRepo {
            url: "ssh://git@git.example/a/b.git".to_owned(),
            host_keys: None,
        })
    }

    fn refused() -> Result<ReportedRepo, GitServerError> {
        Err(GitServerError::Rejected("no\n such group".to_owned()))
    }

    fn away() -> Result<ReportedRepo, GitServerError> {
        Err(GitServerError::Unavailable("no route".to_owned()))
    }

    fn phase_and_reason(state: &RepoState) -> (RepoPhase, Option<&str>) {
        (state.phase, state.reason.as_deref())
    }

    #[test]
    fn answers_move_phases_as_in_the_table() {
        let after = |before: Option<&RepoState>, result: &Result<ReportedRepo, GitServerError>| {
            state_after(before, "it", result, START)
        };
        let created = (RepoPhase::Created, None);
        let failed = (RepoPhase::Failed, Some("no such group"));
        let unknown = (RepoPhase::Unknown, Some("no route"));
        for (first, ways) in [
            (None, [created, failed, unknown]),
            (Some(away()), [created, failed, unknown]),
            (Some(made()), [created, failed, created]),
            (Some(refused()), [created, failed, failed]),
        ] {
            let before = first.as_ref().map(|first| after(None, first));
            for (result, expected) in [made(), refused(), away()].iter().zip(ways) {
                let then = after(before.as_ref(), result);
                assert_eq!(phase_and_reason(&then), expected, "{first:?}, {result:?}");
            }
        }
    }

    #[test]
    fn repeated_answers_keep_their_time_and_other_repositories_start_unknown() {
        let first = state_after(None, "it", &refused(), START);
        let later = START + Duration::HOUR;
        assert_eq!(state_after(Some(&first), "it", &refused(), later), first);
        let other = state_after(Some(&first), "other", &away(), later);
        assert_eq!(
            (phase_and_reason(&other), other.since),
            ((RepoPhase::Unknown, Some("no route")), later)
        );
    }

    #[test]
    fn reasons_are_one_bounded_line() {
        let long = state_after(
            None,
            "it",
            &Err(GitServerError::Rejected("ä\u{7}\r\n".repeat(1000))),
            START,
        );
        let reason = long.reason.unwrap();
        assert_eq!(reason.chars().count(), MAX_REASON_CHARS);
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}
