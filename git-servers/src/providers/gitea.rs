//! Gitea and Forgejo, by the API of both (`/api/v1`).

mod merge_requests;
mod variables;

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::resources::DeployKey;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{count_header, decode, found, github_key, github_keys, pages, without_gitlabs_flags};
use crate::{
    address::RepoPath,
    api_calls::{ApiCalls, ApiRequest, CallError},
    provider::{
        FIRST_BRANCH, FileChange, FoundKey, FoundRepo, FoundVariable, MAX_PAGES, PAGE_SIZE,
        Provider, SetVariable, Tree,
    },
};

pub(crate) struct Gitea(pub(crate) ApiCalls);

#[derive(Deserialize)]
struct Repository {
    full_name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    empty: bool,
    #[serde(default)]
    default_branch: Option<String>,
}

#[derive(Deserialize)]
struct TreePage {
    #[serde(default)]
    tree: Vec<Entry>,
    #[serde(default)]
    total_count: usize,
}

#[derive(Deserialize)]
struct Entry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
    sha: String,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

impl TryFrom<Repository> for FoundRepo {
    type Error = CallError;

    fn try_from(repo: Repository) -> Result<Self, CallError> {
        let path = RepoPath::parse(&repo.full_name);
        let wrong = || CallError::Unavailable("the repository has no valid name".to_owned());
        Ok(FoundRepo {
            id: repo.full_name,
            path: path.ok_or_else(wrong)?,
            description: repo.description,
            archived: repo.archived,
            branch: (repo.default_branch.filter(|it| !it.is_empty()))
                .unwrap_or_else(|| FIRST_BRANCH.to_owned()),
            is_empty: repo.empty,
        })
    }
}

impl Gitea {
    async fn to_repo(
        &self,
        method: Method,
        repo: &FoundRepo,
        below: &[&str],
        body: Option<serde_json::Value>,
    ) -> Result<serde_json::Value, CallError> {
        let path = [&["repos", &repo.path.group, &repo.path.name], below].concat();
        let mut request = ApiRequest::new(method, &path);
        request.body = body;
        Ok(self.0.call(request).await?.body)
    }

    async fn exists(&self, path: &[&str]) -> Result<bool, CallError> {
        let answer = self.0.call(ApiRequest::get(path)).await;
        Ok(found(answer)?.is_some())
    }

    async fn own_login(&self) -> Result<String, CallError> {
        let answer = self.0.call(ApiRequest::get(&["user"])).await?;
        Ok(decode::<User>(answer.body)?.login)
    }
}

/// The server may allow less than a page of the requested size.
fn is_last_page(headers: &http::HeaderMap, _: usize, total: usize) -> bool {
    count_header(headers, "x-total-count").is_some_and(|count| total >= count)
}

#[async_trait]
impl Provider for Gitea {
    fn has_subgroups(&self) -> bool {
        false
    }

    async fn read(&self, path: &RepoPath) -> Result<Option<FoundRepo>, CallError> {
        let of_repo = ["repos", path.group.as_str(), path.name.as_str()];
        let answer = match self.0.call(ApiRequest::get(&of_repo)).await {
            Err(CallError::Moved(target)) => self.0.follow(target).await,
            answer => answer,
        };
        let Some(answer) = found(answer)? else {
            return Ok(None);
        };
        Ok(Some(decode::<Repository>(answer.body)?.try_into()?))
    }

    async fn create(&self, path: &RepoPath, description: &str) -> Result<FoundRepo, CallError> {
        let body = json!({
            "name": path.name,
            "description": description,
            "private": true,
            "auto_init": false,
        });
        let of_org = ["orgs", path.group.as_str(), "repos"];
        let of_user = ["user", "repos"];
        let is_own = self.own_login().await?.eq_ignore_ascii_case(&path.group);
        let place: &[&str] = if is_own { &of_user } else { &of_org };
        let answer = self.0.call(ApiRequest::new(Method::POST, place).body(body));
        decode::<Repository>(answer.await?.body)?.try_into()
    }

    async fn has_group(&self, group: &str) -> Result<bool, CallError> {
        Ok(self.exists(&["orgs", group]).await? || self.exists(&["users", group]).await?)
    }

    async fn create_group(&self, group: &str) -> Result<(), CallError> {
        let body = json!({ "username": group, "visibility": "private" });
        let request = ApiRequest::new(Method::POST, &["orgs"]).body(body);
        self.0.call(request).await.map(drop)
    }

    async fn describe(&self, repo: &FoundRepo, description: &str) -> Result<(), CallError> {
        let body = json!({ "description": description });
        self.to_repo(Method::PATCH, repo, &[], Some(body))
            .await
            .map(drop)
    }

    async fn set_archived(&self, repo: &FoundRepo, archived: bool) -> Result<(), CallError> {
        let body = json!({ "archived": archived });
        self.to_repo(Method::PATCH, repo, &[], Some(body))
            .await
            .map(drop)
    }

    async fn delete(&self, repo: &FoundRepo) -> Result<(), CallError> {
        self.to_repo(Method::DELETE, repo, &[], None)
            .await
            .map(drop)
    }

    async fn deploy_keys(&self, repo: &FoundRepo) -> Result<Vec<FoundKey>, CallError> {
        let path = [
            "repos",
            repo.path.group.as_str(),
            repo.path.name.as_str(),
            "keys",
        ];
        let entries = pages(&self.0, &path, &[("limit", PAGE_SIZE)], is_last_page).await?;
        github_keys(entries)
    }

    async fn add_deploy_key(
        &self,
        repo: &FoundRepo,
        title: &str,
        key: &DeployKey,
    ) -> Result<(), CallError> {
        let body = github_key(title, key);
        self.to_repo(Method::POST, repo, &["keys"], Some(body))
            .await
            .map(drop)
    }

    async fn remove_deploy_key(&self, repo: &FoundRepo, id: &str) -> Result<(), CallError> {
        found(
            self.to_repo(Method::DELETE, repo, &["keys", id], None)
                .await,
        )
        .map(drop)
    }

    fn variable_name(&self, name: &str) -> String {
        name.to_ascii_uppercase()
    }

    fn checked_variable(&self, variable: SetVariable) -> Result<SetVariable, &'static str> {
        without_gitlabs_flags(variable)
    }

    fn has_form(&self, found: &FoundVariable, set: &SetVariable) -> bool {
        found.masked == set.masked
    }

    async fn variables(&self, repo: &FoundRepo) -> Result<Vec<FoundVariable>, CallError> {
        variables::list(self, repo).await
    }

    async fn set_variable(
        &self,
        repo: &FoundRepo,
        variable: &SetVariable,
        exists: bool,
    ) -> Result<(), CallError> {
        variables::set(self, repo, variable, exists).await
    }

    async fn remove_variable(
        &self,
        repo: &FoundRepo,
        variable: &FoundVariable,
    ) -> Result<(), CallError> {
        variables::remove(self, repo, variable).await
    }

    async fn tree(&self, repo: &FoundRepo) -> Result<Tree, CallError> {
        if repo.is_empty {
            return Ok(Tree::new());
        }
        let (group, name) = (repo.path.group.as_str(), repo.path.name.as_str());
        let path = ["repos", group, name, "git", "trees", &repo.branch];
        let (mut tree, mut entries) = (Tree::new(), 0);
        for page in 1..=MAX_PAGES {
            let page = page.to_string();
            let query = [("recursive", "true"), ("per_page", "1000"), ("page", &page)];
            let answer = self.0.call(ApiRequest::get(&path).query(&query)).await?;
            let page: TreePage = decode(answer.body)?;
            let count = page.tree.len();
            entries += count;
            let files = page.tree.into_iter().filter(|entry| entry.kind == "blob");
            tree.extend(files.map(|entry| (entry.path, entry.sha)));
            if count == 0 || entries >= page.total_count {
                return Ok(tree);
            }
        }
        let cause = "the repository has too many files".to_owned();
        Err(CallError::Refused(cause))
    }

    async fn commit(
        &self,
        repo: &FoundRepo,
        changes: &BTreeMap<String, FileChange>,
        message: &str,
    ) -> Result<(), CallError> {
        let files = changes.iter().map(|(path, change)| match change {
            FileChange::Create(content) => {
                json!({ "operation": "create", "path": path, "content": STANDARD.encode(content) })
            }
            FileChange::Update(content, id) => json!({
                "operation": "update", "path": path, "content": STANDARD.encode(content), "sha": id
            }),
            FileChange::Delete(id) => json!({ "operation": "delete", "path": path, "sha": id }),
        });
        let files: Vec<_> = files.collect();
        let body = json!({ "branch": repo.branch, "message": message, "files": files });
        self.to_repo(Method::POST, repo, &["contents"], Some(body))
            .await
            .map(drop)
    }
}
