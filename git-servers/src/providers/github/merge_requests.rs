//! Pull requests of GitHub. Their CI is in two places: statuses of a commit, and check runs.

use async_trait::async_trait;
use fairlead_repositories::{CiResult, MergeCheck, OpenMergeRequest};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::GitHub;
use crate::{
    address::RepoPath,
    api_calls::{ApiRequest, CallError},
    merge_requests::MergeRequestCalls,
    provider::PAGE_SIZE,
    providers::{decode, pull_request},
};

/// Entries of a full page.
const FULL_PAGE: usize = 100;

#[derive(Deserialize)]
struct CombinedStatus {
    state: String,
    total_count: usize,
}

#[derive(Deserialize)]
struct CheckRuns {
    total_count: usize,
    check_runs: Vec<CheckRun>,
}

#[derive(Deserialize)]
struct CheckRun {
    status: String,
    conclusion: Option<String>,
}

#[async_trait]
impl MergeRequestCalls for GitHub {
    async fn open_requests(&self, path: &RepoPath) -> Result<Vec<OpenMergeRequest>, CallError> {
        let query = [("state", "open"), ("per_page", PAGE_SIZE)];
        let is_last = |_: &http::HeaderMap, count, _| count < FULL_PAGE;
        pull_request::list(&self.0, path, &query, is_last).await
    }

    async fn open_request(
        &self,
        path: &RepoPath,
        number: u64,
    ) -> Result<Option<OpenMergeRequest>, CallError> {
        let Some(request) = pull_request::read(&self.0, path, number).await? else {
            return Ok(None);
        };
        let (group, name) = (&path.group, &path.name);
        let at = ["repos", group, name, "commits", &request.head.sha, "status"];
        let status = self.0.call(ApiRequest::get(&at)).await?;
        let status = ci_of_status(&decode(status.body)?);
        let at = [
            "repos",
            group,
            name,
            "commits",
            &request.head.sha,
            "check-runs",
        ];
        let runs = self
            .0
            .call(ApiRequest::get(&at).query(&[("per_page", PAGE_SIZE)]));
        let runs = ci_of_runs(&decode(runs.await?.body)?);
        let merge = match request.mergeable {
            Some(true) => MergeCheck::Clean,
            Some(false) => MergeCheck::Blocked,
            None => MergeCheck::Unknown,
        };
        Ok(Some(request.into_open(worse(status, runs), merge)))
    }

    async fn merge_request(
        &self,
        path: &RepoPath,
        number: u64,
        head: &str,
    ) -> Result<(), CallError> {
        let number = number.to_string();
        let at = ["repos", &path.group, &path.name, "pulls", &number, "merge"];
        let request = ApiRequest::new(Method::PUT, &at).body(json!({ "sha": head }));
        self.0.call(request).await.map(drop)
    }
}

fn ci_of_status(status: &CombinedStatus) -> CiResult {
    match status.state.as_str() {
        _ if status.total_count == 0 => CiResult::None,
        "success" => CiResult::Passed,
        "pending" => CiResult::Pending,
        _ => CiResult::Failed,
    }
}

/// More runs than a page has count as pending: a failed one may be among the others.
fn ci_of_runs(runs: &CheckRuns) -> CiResult {
    let of_run = |run: &CheckRun| match run.conclusion.as_deref() {
        _ if run.status != "completed" => CiResult::Pending,
        Some("success" | "neutral" | "skipped") => CiResult::Passed,
        _ => CiResult::Failed,
    };
    let all = runs.check_runs.iter().map(of_run);
    let known = all.fold(CiResult::None, worse);
    match runs.total_count > runs.check_runs.len() {
        true => worse(known, CiResult::Pending),
        false => known,
    }
}

fn worse(one: CiResult, other: CiResult) -> CiResult {
    let rank = |it: &CiResult| match it {
        CiResult::None => 0,
        CiResult::Passed => 1,
        CiResult::Pending => 2,
        CiResult::Failed => 3,
    };
    [one, other].into_iter().max_by_key(rank).unwrap_or(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_run_decides_and_unread_runs_are_pending() {
        let run = |status: &str, conclusion: Option<&str>| CheckRun {
            status: status.to_owned(),
            conclusion: conclusion.map(str::to_owned),
        };
        let of = |total_count, check_runs| {
            ci_of_runs(&CheckRuns {
                total_count,
                check_runs,
            })
        };
        let passed = || run("completed", Some("success"));
        assert_eq!(of(0, Vec::new()), CiResult::None);
        assert_eq!(
            of(2, vec![passed(), run("completed", Some("skipped"))]),
            CiResult::Passed
        );
        assert_eq!(
            of(2, vec![run("queued", None), passed()]),
            CiResult::Pending
        );
        assert_eq!(
            of(
                2,
                vec![run("completed", Some("timed_out")), run("queued", None)]
            ),
            CiResult::Failed
        );
        assert_eq!(of(101, vec![passed()]), CiResult::Pending);
    }
}
