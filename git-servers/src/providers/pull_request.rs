//! A pull request in the API of GitHub, whose form Gitea has taken over.

use fairlead_repositories::{CiResult, MergeCheck, OpenMergeRequest};
use serde::Deserialize;

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

/// True if it is merged or closed.
pub(super) fn is_closed(request: &PullRequest) -> bool {
    request.state != "open"
}
