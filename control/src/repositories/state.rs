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

use fairlead_store::model::{Cluster, ClusterTemplate, RepoPhase, RepoState, Tenant};
use serde::Serialize;
use time::OffsetDateTime;

use super::{GitServers, GitTrouble, MadeRepo, WantedRepo};
use crate::registry::Effective;

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 500;

/// Status of the repository with hash `of` after an answer of its server.
pub(super) fn state_after(
    before: Option<&RepoState>,
    of: &str,
    said: &Result<MadeRepo, GitTrouble>,
    now: OffsetDateTime,
) -> RepoState {
    let before = before.filter(|it| it.of == of);
    let (phase, reason) = match (said, before) {
        (Ok(_), _) => (RepoPhase::Created, None),
        (Err(GitTrouble::Refused(reason)), _) => (RepoPhase::Failed, Some(line(reason))),
        (Err(GitTrouble::Away(_)), Some(known)) if known.phase != RepoPhase::Unknown => {
            return known.clone();
        }
        (Err(GitTrouble::Away(reason)), _) => (RepoPhase::Unknown, Some(line(reason))),
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
    words.join(" ").chars().take(MAX_REASON).collect()
}

/// Status as shown by the API.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ShownRepoState<'a> {
    phase: RepoPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
    #[serde(
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    since: Option<OffsetDateTime>,
}

impl ShownRepoState<'_> {
    pub(crate) fn phase(&self) -> RepoPhase {
        self.phase
    }

    fn unknown(reason: &'static str) -> Self {
        ShownRepoState {
            phase: RepoPhase::Unknown,
            reason: Some(reason.into()),
            since: None,
        }
    }
}

/// `None` without a repository.
pub(crate) fn shown_of_tenant<'a>(
    servers: &GitServers,
    tenant: &'a Tenant,
) -> Option<ShownRepoState<'a>> {
    tenant.git_repo.as_ref()?;
    let wanted = || WantedRepo::of_tenant(tenant);
    Some(shown(servers, wanted, tenant.repo_state.as_ref()))
}

/// Like [`shown_of_tenant`].
pub(crate) fn shown_of_cluster<'a>(
    servers: &GitServers,
    cluster: &'a Cluster,
    template: Option<&ClusterTemplate>,
) -> Option<ShownRepoState<'a>> {
    if !Effective::of(cluster, template).has_repo() {
        return None;
    }
    let wanted = || WantedRepo::of_cluster(cluster, template);
    Some(shown(servers, wanted, cluster.repo_state.as_ref()))
}

fn shown<'a>(
    servers: &GitServers,
    wanted: impl FnOnce() -> Option<WantedRepo>,
    known: Option<&'a RepoState>,
) -> ShownRepoState<'a> {
    const UNSERVED: &str = "this hub looks after no repositories there";
    if servers.are_none() {
        return ShownRepoState::unknown(UNSERVED);
    }
    let Some(wanted) = wanted() else {
        return ShownRepoState::unknown("it is unmanaged: nobody looks after it");
    };
    if servers.of(&wanted).is_none() {
        return ShownRepoState::unknown(UNSERVED);
    }
    match known.filter(|known| known.of == wanted.hash()) {
        None => {
            ShownRepoState::unknown("its server has not been asked for it, as it is wanted now")
        }
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

    fn made() -> Result<MadeRepo, GitTrouble> {
        Ok(MadeRepo {
            url: "ssh://git@git.example/a/b.git".to_owned(),
            host_keys: None,
        })
    }

    fn refused() -> Result<MadeRepo, GitTrouble> {
        Err(GitTrouble::Refused("no\n such group".to_owned()))
    }

    fn away() -> Result<MadeRepo, GitTrouble> {
        Err(GitTrouble::Away("no route".to_owned()))
    }

    fn phase_and_reason(state: &RepoState) -> (RepoPhase, Option<&str>) {
        (state.phase, state.reason.as_deref())
    }

    #[test]
    fn what_a_server_says_leads_from_each_phase_to_the_one_in_the_table() {
        let after = |before: Option<&RepoState>, said: &Result<MadeRepo, GitTrouble>| {
            state_after(before, "it", said, START)
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
            for (said, expected) in [made(), refused(), away()].iter().zip(ways) {
                let then = after(before.as_ref(), said);
                assert_eq!(phase_and_reason(&then), expected, "{first:?}, {said:?}");
            }
        }
    }

    #[test]
    fn what_is_said_again_is_as_old_as_it_was_and_of_another_repository_nothing_is_known() {
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
    fn a_reason_is_one_line_and_has_an_end() {
        let long = state_after(
            None,
            "it",
            &Err(GitTrouble::Refused("ä\u{7}\r\n".repeat(1000))),
            START,
        );
        let reason = long.reason.unwrap();
        assert_eq!(reason.chars().count(), MAX_REASON);
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}
