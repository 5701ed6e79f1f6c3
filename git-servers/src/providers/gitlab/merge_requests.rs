//! Merge requests of GitLab.

use async_trait::async_trait;
use fairlead_repositories::{CiResult, MergeCheck, OpenMergeRequest};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{GitLab, is_last_page};
use crate::{
    address::RepoPath,
    api_calls::{ApiRequest, CallError},
    merge_requests::MergeRequestCalls,
    provider::PAGE_SIZE,
    providers::{decode, found, pages},
};

#[derive(Deserialize)]
struct MergeRequest {
    iid: u64,
    title: String,
    #[serde(default)]
    web_url: String,
    state: String,
    author: Option<User>,
    #[serde(default)]
    labels: Vec<String>,
    source_branch: String,
    /// Missing until the server has read the branch.
    sha: Option<String>,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    has_conflicts: bool,
    #[serde(default)]
    detailed_merge_status: Option<String>,
    #[serde(default)]
    head_pipeline: Option<Pipeline>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Pipeline {
    status: String,
}

impl MergeRequest {
    fn into_open(self) -> OpenMergeRequest {
        OpenMergeRequest {
            ci: ci_of(self.head_pipeline.as_ref()),
            merge: check_of(self.has_conflicts, self.detailed_merge_status.as_deref()),
            number: self.iid,
            title: self.title,
            url: self.web_url,
            author: self.author.map(|it| it.username).unwrap_or_default(),
            labels: self.labels,
            branch: self.source_branch,
            head: self.sha.unwrap_or_default(),
            is_draft: self.draft,
        }
    }
}

#[async_trait]
impl MergeRequestCalls for GitLab {
    async fn open_requests(&self, path: &RepoPath) -> Result<Vec<OpenMergeRequest>, CallError> {
        let project = path.to_string();
        let at = ["projects", project.as_str(), "merge_requests"];
        let query = [("state", "opened"), ("per_page", PAGE_SIZE)];
        let entries = pages(&self.0, &at, &query, is_last_page).await?;
        let requests = entries.into_iter().map(decode::<MergeRequest>);
        requests.map(|it| it.map(MergeRequest::into_open)).collect()
    }

    async fn open_request(
        &self,
        path: &RepoPath,
        number: u64,
    ) -> Result<Option<OpenMergeRequest>, CallError> {
        let (project, number) = (path.to_string(), number.to_string());
        let at = ["projects", &project, "merge_requests", &number];
        let Some(answer) = found(self.0.call(ApiRequest::get(&at)).await)? else {
            return Ok(None);
        };
        let request: MergeRequest = decode(answer.body)?;
        Ok((request.state == "opened").then(|| request.into_open()))
    }

    async fn merge_request(
        &self,
        path: &RepoPath,
        number: u64,
        head: &str,
    ) -> Result<(), CallError> {
        let (project, number) = (path.to_string(), number.to_string());
        let at = ["projects", &project, "merge_requests", &number, "merge"];
        let request = ApiRequest::new(Method::PUT, &at).body(json!({ "sha": head }));
        self.0.call(request).await.map(drop)
    }
}

fn ci_of(pipeline: Option<&Pipeline>) -> CiResult {
    match pipeline.map(|it| it.status.as_str()) {
        None => CiResult::None,
        Some("success" | "skipped") => CiResult::Passed,
        Some("failed" | "canceled" | "canceling") => CiResult::Failed,
        Some(_) => CiResult::Pending,
    }
}

fn check_of(has_conflicts: bool, status: Option<&str>) -> MergeCheck {
    match status {
        _ if has_conflicts => MergeCheck::Blocked,
        Some("mergeable") => MergeCheck::Clean,
        // The CI is judged apart.
        Some("ci_must_pass" | "ci_still_running") => MergeCheck::Clean,
        Some("checking" | "unchecked" | "preparing" | "approvals_syncing") | None => {
            MergeCheck::Unknown
        }
        Some(_) => MergeCheck::Blocked,
    }
}
