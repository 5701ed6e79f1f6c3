//! Pull requests of Gitea and Forgejo.

use async_trait::async_trait;
use fairlead_repositories::{CiResult, MergeCheck, OpenMergeRequest};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::json;

use super::Gitea;
use crate::{
    address::RepoPath,
    api_calls::{ApiRequest, CallError},
    merge_requests::MergeRequestCalls,
    provider::PAGE_SIZE,
    providers::{count_header, decode, found, pull_request},
};

#[derive(Deserialize)]
struct CombinedStatus {
    #[serde(default)]
    state: String,
    #[serde(default)]
    total_count: usize,
}

#[async_trait]
impl MergeRequestCalls for Gitea {
    fn blocks_while_checking(&self) -> bool {
        true
    }

    async fn open_requests(&self, path: &RepoPath) -> Result<Vec<OpenMergeRequest>, CallError> {
        // The server may allow less than a page of this size.
        let is_last = |headers: &HeaderMap, _, total| {
            count_header(headers, "x-total-count").is_some_and(|count| total >= count)
        };
        let query = [("state", "open"), ("limit", PAGE_SIZE)];
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
        let status = found(self.0.call(ApiRequest::get(&at)).await)?;
        let status = status.map(|it| decode::<CombinedStatus>(it.body));
        let ci = status.transpose()?.map_or(CiResult::None, |it| ci_of(&it));
        // While Gitea checks for conflicts, it answers false as well.
        let merge = match request.mergeable {
            Some(true) => MergeCheck::Clean,
            Some(false) => MergeCheck::Blocked,
            None => MergeCheck::Unknown,
        };
        Ok(Some(request.into_open(ci, merge)))
    }

    async fn merge_request(
        &self,
        path: &RepoPath,
        number: u64,
        head: &str,
    ) -> Result<(), CallError> {
        let number = number.to_string();
        let at = ["repos", &path.group, &path.name, "pulls", &number, "merge"];
        let body = json!({ "do": "merge", "head_commit_id": head });
        let request = ApiRequest::new(Method::POST, &at).body(body);
        self.0.call(request).await.map(drop)
    }
}

fn ci_of(status: &CombinedStatus) -> CiResult {
    match status.state.as_str() {
        _ if status.total_count == 0 => CiResult::None,
        "success" | "skipped" => CiResult::Passed,
        "pending" | "" => CiResult::Pending,
        _ => CiResult::Failed,
    }
}
