//! Status of a repository. The answer of its server selects the next phase:
//!
//! | from                  | as desired | refused  | away                       |
//! |-----------------------|------------|----------|----------------------------|
//! | `unknown`, `creating` | `created`  | `failed` | `unknown`, with the reason |
//! | `created`             | `created`  | `failed` | `created`                  |
//! | `failed`              | `created`  | `failed` | `failed`                   |
//!
//! `refused` is also an answer that one part, like a CI variable without a readable credential, is not
//! as desired although all others are.
//!
//! The first request for a repository makes it `creating`.
//!
//! A status is valid for one desired state. With another URL or key, or without a responsible
//! server, the status reads `unknown`; no write is needed.

use std::borrow::Cow;

use fairlead_registry::{Effective, RepoStatus, ShownRepoState};
use fairlead_repositories::{
    DesiredRepo, GitServerError, GitServers, ReportedAccessToken, ReportedRepo,
};
use fairlead_store::model::{
    AccessTokenState, Cluster, ClusterTemplate, RepoAccessToken, RepoDrift, RepoPhase, RepoState,
    Tenant,
};
use time::OffsetDateTime;

use super::desired::{desired_of_cluster, desired_of_tenant, hash_of};
use crate::reconciling;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// Hashes of a desired repository and of its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DesiredHashes {
    pub(super) of: String,
    pub(super) contents: Option<String>,
}

/// Status of the repository with these hashes after an answer of its server.
pub(super) fn state_after(
    last: Option<&RepoState>,
    hashes: &DesiredHashes,
    result: &Result<ReportedRepo, GitServerError>,
    now: OffsetDateTime,
) -> RepoState {
    let before = last.filter(|it| it.of == hashes.of);
    let mut next = RepoState {
        phase: RepoPhase::Unknown,
        reason: None,
        code: None,
        of: hashes.of.clone(),
        since: now,
        tried: Some(now),
        drift: before.and_then(|it| it.drift.clone()),
        url: last.and_then(|it| it.url.clone()),
        deploy_keys: last.map(|it| it.deploy_keys.clone()).unwrap_or_default(),
        generated_keys: last.map(|it| it.generated_keys.clone()).unwrap_or_default(),
        files: before.and_then(|it| it.files.clone()),
        written_files: last.map(|it| it.written_files.clone()).unwrap_or_default(),
        ci_variables: last.map(|it| it.ci_variables.clone()).unwrap_or_default(),
        access_token: last.and_then(|it| it.access_token.clone()),
        access_token_id: last.and_then(|it| it.access_token_id.clone()),
    };
    match result {
        Ok(made) => {
            let was_provided = before
                .is_some_and(|it| it.phase == RepoPhase::Created && it.files == hashes.contents);
            if was_provided && !made.corrected.is_empty() {
                let corrected = made.corrected.iter().map(|it| line(it)).collect();
                next.drift = Some(RepoDrift { at: now, corrected });
            }
            next.phase = match made.unmet.as_slice() {
                [] => RepoPhase::Created,
                reasons => {
                    next.reason = Some(line(&reasons.join("; ")));
                    RepoPhase::Failed
                }
            };
            next.url = Some(made.url.clone());
            next.deploy_keys.clone_from(&made.deploy_keys);
            next.generated_keys.clone_from(&made.generated_keys);
            next.files.clone_from(&hashes.contents);
            next.written_files.clone_from(&made.files);
            next.ci_variables.clone_from(&made.ci_variables);
            if made.access_token != Some(ReportedAccessToken::Failed) {
                (next.access_token, next.access_token_id) = token_of(made);
            }
        }
        Err(GitServerError::Rejected(reason)) => {
            next.phase = RepoPhase::Failed;
            next.reason = Some(line(reason));
        }
        Err(GitServerError::Denied(code, reason)) => {
            next.phase = RepoPhase::Failed;
            next.reason = Some(line(reason));
            next.code = Some(*code);
        }
        Err(GitServerError::Unavailable(reason) | GitServerError::Throttled { reason, .. }) => {
            match before {
                // The last known status counts.
                Some(known) if known.phase == RepoPhase::Created => return known.clone(),
                Some(known) if known.phase == RepoPhase::Failed => {
                    next.phase = RepoPhase::Failed;
                    next.reason.clone_from(&known.reason);
                    next.code = known.code;
                }
                _ => next.reason = Some(line(reason)),
            }
        }
    }
    let Some(known) = before else {
        return next;
    };
    if (known.phase, &known.reason) == (next.phase, &next.reason) {
        next.since = known.since;
    }
    let is_noted = RepoState {
        tried: known.tried,
        ..next.clone()
    };
    // Successful checks without a difference cause no change of the record.
    match next.phase {
        RepoPhase::Created if is_noted == *known => is_noted,
        _ => next,
    }
}

/// Status and id of the access token.
fn token_of(made: &ReportedRepo) -> (Option<RepoAccessToken>, Option<String>) {
    match &made.access_token {
        None | Some(ReportedAccessToken::Failed) => (None, None),
        Some(ReportedAccessToken::Unsupported) => {
            let token = RepoAccessToken {
                state: AccessTokenState::Unsupported,
                expires_at: None,
            };
            (Some(token), None)
        }
        Some(ReportedAccessToken::Valid { id, expires }) => {
            let token = RepoAccessToken {
                state: AccessTokenState::Valid,
                expires_at: Some(expires.clone()),
            };
            (Some(token), Some(id.clone()))
        }
    }
}

/// Status at the first request; `None` if it stays, because the repository was requested before.
pub(super) fn creating(
    last: Option<&RepoState>,
    hashes: &DesiredHashes,
    now: OffsetDateTime,
) -> Option<RepoState> {
    let was_requested = last.is_some_and(|it| it.of == hashes.of || it.url.is_some());
    (!was_requested).then(|| RepoState {
        phase: RepoPhase::Creating,
        reason: None,
        code: None,
        of: hashes.of.clone(),
        since: now,
        tried: Some(now),
        drift: None,
        url: None,
        deploy_keys: Default::default(),
        generated_keys: Default::default(),
        files: None,
        written_files: Default::default(),
        ci_variables: Default::default(),
        access_token: None,
        access_token_id: None,
    })
}

/// The reason on one line, truncated.
pub(super) fn line(reason: &str) -> String {
    reconciling::line(reason, MAX_REASON_CHARS)
}

/// Status of repositories for documents.
pub(crate) struct ServerStates(pub(crate) GitServers);

impl RepoStatus for ServerStates {
    fn of_tenant<'a>(&self, tenant: &'a Tenant) -> Option<ShownRepoState<'a>> {
        tenant.git_repo.as_ref()?;
        let desired = || desired_of_tenant(tenant, [].into_iter());
        Some(shown(&self.0, desired, tenant.repo_state.as_deref()))
    }

    fn of_cluster<'a>(
        &self,
        cluster: &'a Cluster,
        template: Option<&ClusterTemplate>,
    ) -> Option<ShownRepoState<'a>> {
        if !Effective::of(cluster, template).has_repo() {
            return None;
        }
        let desired = || desired_of_cluster(cluster, template);
        Some(shown(&self.0, desired, cluster.repo_state.as_deref()))
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
    match known.filter(|known| known.of == hash_of(&desired)) {
        None => ShownRepoState::unknown("not requested from its Git server in its current form"),
        Some(known) => ShownRepoState {
            phase: known.phase,
            reason: known.reason.as_deref().map(Cow::Borrowed),
            code: known.code,
            since: Some(known.since),
            last_try: known.tried,
            drift: known.drift.as_ref(),
            access_token: known.access_token.as_ref(),
            generated_keys: Some(&known.generated_keys).filter(|it| !it.is_empty()),
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
            ..ReportedRepo::default()
        })
    }

    fn refused() -> Result<ReportedRepo, GitServerError> {
        Err(GitServerError::Rejected("no\n such group".to_owned()))
    }

    fn away() -> Result<ReportedRepo, GitServerError> {
        Err(GitServerError::Unavailable("no route".to_owned()))
    }

    fn throttled() -> Result<ReportedRepo, GitServerError> {
        Err(GitServerError::Throttled {
            reason: "no route".to_owned(),
            wait: std::time::Duration::from_secs(7),
        })
    }

    fn hashes(of: &str) -> DesiredHashes {
        DesiredHashes {
            of: of.to_owned(),
            contents: None,
        }
    }

    fn phase_and_reason(state: &RepoState) -> (RepoPhase, Option<&str>) {
        (state.phase, state.reason.as_deref())
    }

    #[test]
    fn answers_move_phases_as_in_the_table() {
        let after = |before: Option<&RepoState>, result: &Result<ReportedRepo, GitServerError>| {
            state_after(before, &hashes("it"), result, START)
        };
        let created = (RepoPhase::Created, None);
        let failed = (RepoPhase::Failed, Some("no such group"));
        let unknown = (RepoPhase::Unknown, Some("no route"));
        let first_request = creating(None, &hashes("it"), START);
        for (before, ways) in [
            (None, [created, failed, unknown, unknown]),
            (first_request, [created, failed, unknown, unknown]),
            (
                Some(after(None, &away())),
                [created, failed, unknown, unknown],
            ),
            (
                Some(after(None, &made())),
                [created, failed, created, created],
            ),
            (
                Some(after(None, &refused())),
                [created, failed, failed, failed],
            ),
        ] {
            let results = [made(), refused(), away(), throttled()];
            for (result, expected) in results.iter().zip(ways) {
                let then = after(before.as_ref(), result);
                assert_eq!(phase_and_reason(&then), expected, "{before:?}, {result:?}");
            }
        }
    }

    #[test]
    fn repeated_answers_keep_their_start_and_other_repositories_start_unknown() {
        let first = state_after(None, &hashes("it"), &refused(), START);
        let later = START + Duration::HOUR;
        let again = state_after(Some(&first), &hashes("it"), &refused(), later);
        assert_eq!((again.since, again.tried), (START, Some(later)));
        let created = state_after(None, &hashes("it"), &made(), START);
        let again = state_after(Some(&created), &hashes("it"), &made(), later);
        assert_eq!(again, created, "a check without a difference is no change");
        let other = state_after(Some(&first), &hashes("other"), &away(), later);
        assert_eq!(
            (phase_and_reason(&other), other.since),
            ((RepoPhase::Unknown, Some("no route")), later)
        );
    }

    #[test]
    fn only_the_first_request_is_a_creation() {
        let first = creating(None, &hashes("it"), START).unwrap();
        assert_eq!(phase_and_reason(&first), (RepoPhase::Creating, None));
        assert_eq!(creating(Some(&first), &hashes("it"), START), None);
        let created = state_after(Some(&first), &hashes("it"), &made(), START);
        assert_eq!(creating(Some(&created), &hashes("other"), START), None);
        let refused = state_after(None, &hashes("it"), &refused(), START);
        assert!(creating(Some(&refused), &hashes("other"), START).is_some());
    }

    #[test]
    fn corrections_of_a_provided_repository_are_drift() {
        let corrected = |parts: &[&str]| {
            let mut made = made().unwrap();
            made.corrected = parts.iter().map(|it| (*it).to_owned()).collect();
            Ok(made)
        };
        let first = state_after(None, &hashes("it"), &corrected(&["repository"]), START);
        assert_eq!(first.drift, None, "a creation is no drift");
        let later = START + Duration::HOUR;
        let drifted = corrected(&["description"]);
        let then = state_after(Some(&first), &hashes("it"), &drifted, later);
        let drift = then.drift.clone().unwrap();
        assert_eq!(
            (drift.at, &drift.corrected[..]),
            (later, &["description".to_owned()][..])
        );
        let kept = state_after(Some(&then), &hashes("it"), &made(), later);
        assert_eq!(kept, then, "the last drift stays shown");
        let wish = state_after(Some(&first), &hashes("other"), &drifted, later);
        assert_eq!(wish.drift, None, "a changed wish is no drift");
        let files = DesiredHashes {
            contents: Some("more".to_owned()),
            ..hashes("it")
        };
        let more = state_after(Some(&first), &files, &corrected(&["file a"]), later);
        assert_eq!(more.drift, None, "a new file is no drift");
    }

    #[test]
    fn one_unmet_part_fails_alone_and_all_others_are_recorded() {
        let token = ReportedAccessToken::Valid {
            id: "7".to_owned(),
            expires: "2027-01-01".to_owned(),
        };
        let whole = ReportedRepo {
            access_token: Some(token),
            ..made().unwrap()
        };
        let first = state_after(None, &hashes("it"), &Ok(whole), START);
        let part = ReportedRepo {
            ci_variables: ["CLUSTERS".to_owned()].into(),
            access_token: Some(ReportedAccessToken::Failed),
            unmet: vec!["one".to_owned(), "two".to_owned()],
            ..made().unwrap()
        };
        let then = state_after(Some(&first), &hashes("it"), &Ok(part.clone()), START);
        assert_eq!(
            phase_and_reason(&then),
            (RepoPhase::Failed, Some("one; two"))
        );
        assert_eq!(then.ci_variables, part.ci_variables);
        assert_eq!(then.access_token_id.as_deref(), Some("7"));
        let again = state_after(Some(&then), &hashes("it"), &made(), START);
        assert_eq!(phase_and_reason(&again), (RepoPhase::Created, None));
    }

    #[test]
    fn an_earlier_repository_and_its_keys_stay_known() {
        let made = ReportedRepo {
            deploy_keys: ["steward".to_owned()].into(),
            ..made().unwrap()
        };
        let first = state_after(None, &hashes("it"), &Ok(made), START);
        let then = state_after(Some(&first), &hashes("other"), &refused(), START);
        assert_eq!((then.url, then.deploy_keys), (first.url, first.deploy_keys));
    }

    #[test]
    fn reasons_are_one_bounded_line() {
        let long = GitServerError::Rejected("ä\u{7}\r\n".repeat(1000));
        let long = state_after(None, &hashes("it"), &Err(long), START);
        let reason = long.reason.unwrap();
        assert_eq!(reason.chars().count(), MAX_REASON_CHARS);
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}
