//! Requests for merge requests that all providers have, and the checks before a merge.

use std::time::Duration;

use async_trait::async_trait;
use fairlead_repositories::{
    CiResult, GitServerError, MergeCheck, MergeRequestFilter, OpenMergeRequest,
};

use tokio::time::sleep;

use crate::{address::RepoPath, api_calls::CallError, provider::Provider, reconcile::server_error};

/// Servers check for conflicts again after each merge. A merge waits for that check.
const MAX_CHECKS: u32 = 40;
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Merge requests in the API of one provider.
#[async_trait]
pub(crate) trait MergeRequestCalls: Send + Sync {
    /// True if the API shows a request as blocked while the server checks it.
    fn blocks_while_checking(&self) -> bool {
        false
    }

    /// All open ones, of all pages. CI and conflicts may be unknown.
    async fn open_requests(&self, path: &RepoPath) -> Result<Vec<OpenMergeRequest>, CallError>;

    /// An open one with CI and conflicts; `None` if there is none.
    async fn open_request(
        &self,
        path: &RepoPath,
        number: u64,
    ) -> Result<Option<OpenMergeRequest>, CallError>;

    /// Merges it if this is still its last commit.
    async fn merge_request(
        &self,
        path: &RepoPath,
        number: u64,
        head: &str,
    ) -> Result<(), CallError>;
}

/// Open merge requests that match, with CI and conflicts.
pub(crate) async fn list(
    provider: &dyn Provider,
    server: &str,
    path: &RepoPath,
    filter: &MergeRequestFilter,
) -> Result<Vec<OpenMergeRequest>, GitServerError> {
    let failed = |error| server_error(server, &format!("listing merge requests of {path}"), error);
    let all = provider.open_requests(path).await.map_err(failed)?;
    let mut found = Vec::new();
    for request in all.iter().filter(|it| filter.matches(it)) {
        // A request that was closed in between is left out.
        let request = provider.open_request(path, request.number).await;
        found.extend(request.map_err(failed)?);
    }
    Ok(found)
}

/// Merges a request that is ready, and unchanged since `head` was read.
pub(crate) async fn merge(
    provider: &dyn Provider,
    server: &str,
    path: &RepoPath,
    (number, head): (u64, Option<&str>),
) -> Result<(), GitServerError> {
    let failed = |error| server_error(server, &format!("merging {path}!{number}"), error);
    let rejected = |cause: &str| Err(GitServerError::Rejected(format!("{path}!{number} {cause}")));
    let mut checks = 0;
    let request = loop {
        let request = provider.open_request(path, number).await.map_err(failed)?;
        let Some(request) = request else {
            return rejected("is not open");
        };
        checks += 1;
        let is_checked = match request.merge {
            MergeCheck::Clean => true,
            MergeCheck::Blocked => !provider.blocks_while_checking(),
            MergeCheck::Unknown => false,
        };
        let may_change = !is_checked && !has_bad_ci(&request);
        if !may_change || checks == MAX_CHECKS {
            break request;
        }
        sleep(CHECK_INTERVAL).await;
    };
    if let Some(obstacle) = obstacle(&request) {
        return rejected(obstacle);
    }
    if head.is_some_and(|head| head != request.head) {
        return rejected("has new commits since it was listed; list it again");
    }
    let merged = provider.merge_request(path, number, &request.head).await;
    merged.map_err(failed)
}

fn has_bad_ci(request: &OpenMergeRequest) -> bool {
    request.is_draft || matches!(request.ci, CiResult::Failed | CiResult::Pending)
}

/// Reason against a merge.
fn obstacle(request: &OpenMergeRequest) -> Option<&'static str> {
    match (request.ci, request.merge) {
        _ if request.is_draft => Some("is a draft"),
        (CiResult::Failed, _) => Some("has a failed CI"),
        (CiResult::Pending, _) => Some("has a CI that has not ended"),
        (_, MergeCheck::Blocked) => {
            Some("has conflicts, or a rule of the server forbids the merge")
        }
        (_, MergeCheck::Unknown) => Some("is being checked for conflicts; try again in a moment"),
        (CiResult::None | CiResult::Passed, MergeCheck::Clean) => None,
    }
}
