//! Pull requests in the API of GitHub, whose form Gitea has taken over.

use fairlead_repositories::{CiResult, MergeCheck, OpenMergeRequest};
use http::HeaderMap;
use serde::Deserialize;

use super::{decode, found, pages};
use crate::{
    address::RepoPath,
    api_calls::{ApiCalls, ApiRequest, CallError},
};

#[derive(Deserialize)]
pub(super) struct PullRequest {
    pub(super) number: u64,
    title: String,
    #[serde(default)]
    html_url: String,
    state: String,
    user: Option<User>,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    pub(super) mergeable: Option<bool>,
    pub(super) head: Branch,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Deserialize)]
struct Label {
    name: String,
}

#[derive(Deserialize)]
pub(super) struct Branch {
    #[serde(rename = "ref")]
    name: String,
    pub(super) sha: String,
}

impl PullRequest {
    pub(super) fn into_open(self, ci: CiResult, merge: MergeCheck) -> OpenMergeRequest {
        OpenMergeRequest {
            number: self.number,
            title: self.title,
            url: self.html_url,
            author: self.user.map(|it| it.login).unwrap_or_default(),
            labels: self.labels.into_iter().map(|it| it.name).collect(),
            branch: self.head.name,
            head: self.head.sha,
            is_draft: self.draft,
            ci,
            merge,
        }
    }
}

/// All open ones of a repository. CI and conflicts are unknown.
pub(super) async fn list(
    api: &ApiCalls,
    path: &RepoPath,
    query: &[(&str, &str)],
    is_last: impl Fn(&HeaderMap, usize, usize) -> bool,
) -> Result<Vec<OpenMergeRequest>, CallError> {
    let at = ["repos", path.group.as_str(), path.name.as_str(), "pulls"];
    let entries = pages(api, &at, query, is_last).await?;
    let requests = entries.into_iter().map(|entry| {
        let request: PullRequest = decode(entry)?;
        Ok(request.into_open(CiResult::None, MergeCheck::Unknown))
    });
    requests.collect()
}

/// An open one; `None` if there is none.
pub(super) async fn read(
    api: &ApiCalls,
    path: &RepoPath,
    number: u64,
) -> Result<Option<PullRequest>, CallError> {
    let number = number.to_string();
    let at = ["repos", &path.group, &path.name, "pulls", &number];
    let Some(answer) = found(api.call(ApiRequest::get(&at)).await)? else {
        return Ok(None);
    };
    let request: PullRequest = decode(answer.body)?;
    Ok((request.state == "open").then_some(request))
}
