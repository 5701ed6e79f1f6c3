//! GitHub and GitHub Enterprise Server, by their REST API of version 2022-11-28.

mod commit;
mod merge_requests;
mod variables;

use std::collections::BTreeMap;

use async_trait::async_trait;
use fairlead_api::resources::DeployKey;
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{decode, found, github_key, github_keys, pages, without_gitlabs_flags};
use crate::{
    address::RepoPath,
    api_calls::{ApiCalls, ApiRequest, CallError},
    provider::{
        FileChange, FoundKey, FoundRepo, FoundVariable, PAGE_SIZE, Provider, SetVariable, Tree,
    },
};

pub(crate) struct GitHub(pub(crate) ApiCalls);

#[derive(Deserialize)]
struct Repository {
    full_name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    archived: bool,
    default_branch: String,
}

#[derive(Deserialize)]
struct TreeAnswer {
    tree: Vec<Entry>,
    #[serde(default)]
    truncated: bool,
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
            description: repo.description.unwrap_or_default(),
            archived: repo.archived,
            branch: repo.default_branch,
            // Its Git database tells.
            is_empty: false,
        })
    }
}

impl GitHub {
    async fn to_repo(
        &self,
        method: Method,
        repo: &FoundRepo,
        below: &[&str],
        body: Option<Value>,
    ) -> Result<Value, CallError> {
        let path = [&["repos", &repo.path.group, &repo.path.name], below].concat();
        let mut request = ApiRequest::new(method, &path);
        request.body = body;
        Ok(self.0.call(request).await?.body)
    }

    async fn change(&self, repo: &FoundRepo, body: Value) -> Result<(), CallError> {
        self.to_repo(Method::PATCH, repo, &[], Some(body))
            .await
            .map(drop)
    }

    async fn own_login(&self) -> Result<String, CallError> {
        let answer = self.0.call(ApiRequest::get(&["user"])).await?;
        Ok(decode::<User>(answer.body)?.login)
    }
}

/// The last page has no link to a next one (RFC 8288).
fn is_last_page(headers: &HeaderMap, _: usize, _: usize) -> bool {
    let links = headers.get_all("link").iter();
    !links
        .filter_map(|it| it.to_str().ok())
        .any(|it| it.contains("rel=\"next\""))
}

#[async_trait]
impl Provider for GitHub {
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
        let created = self
            .0
            .call(ApiRequest::new(Method::POST, &of_org).body(body.clone()));
        let answer = match created.await {
            // An app's token has no user, so that is requested only if there is no organisation.
            Err(CallError::Missing) => {
                if !self.own_login().await?.eq_ignore_ascii_case(&path.group) {
                    return Err(CallError::Missing);
                }
                let request = ApiRequest::new(Method::POST, &["user", "repos"]);
                self.0.call(request.body(body)).await?
            }
            created => created?,
        };
        decode::<Repository>(answer.body)?.try_into()
    }

    async fn has_group(&self, group: &str) -> Result<bool, CallError> {
        // Organisations are users, too.
        let answer = self.0.call(ApiRequest::get(&["users", group])).await;
        Ok(found(answer)?.is_some())
    }

    async fn create_group(&self, group: &str) -> Result<(), CallError> {
        // Only the API for site administrators of an Enterprise Server makes organisations.
        let admin = self.own_login().await?;
        let body = json!({ "login": group, "admin": admin });
        let request = ApiRequest::new(Method::POST, &["admin", "organizations"]).body(body);
        match self.0.call(request).await {
            Err(CallError::Missing | CallError::Forbidden(_)) => {
                let cause = "only site administrators of GitHub Enterprise Server create organisations by API; \
                     create it on the website";
                Err(CallError::Refused(cause.to_owned()))
            }
            done => done.map(drop),
        }
    }

    async fn describe(&self, repo: &FoundRepo, description: &str) -> Result<(), CallError> {
        self.change(repo, json!({ "description": description }))
            .await
    }

    async fn set_archived(&self, repo: &FoundRepo, archived: bool) -> Result<(), CallError> {
        self.change(repo, json!({ "archived": archived })).await
    }

    async fn delete(&self, repo: &FoundRepo) -> Result<(), CallError> {
        self.to_repo(Method::DELETE, repo, &[], None)
            .await
            .map(drop)
    }

    async fn deploy_keys(&self, repo: &FoundRepo) -> Result<Vec<FoundKey>, CallError> {
        let (group, name) = (repo.path.group.as_str(), repo.path.name.as_str());
        let path = ["repos", group, name, "keys"];
        let entries = pages(&self.0, &path, &[("per_page", PAGE_SIZE)], is_last_page).await?;
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
        let Some((commit, _)) = commit::head(self, repo).await? else {
            return Ok(Tree::new());
        };
        let (group, name) = (repo.path.group.as_str(), repo.path.name.as_str());
        let path = ["repos", group, name, "git", "trees", commit.as_str()];
        let request = ApiRequest::get(&path).query(&[("recursive", "1")]);
        let answer: TreeAnswer = decode(self.0.call(request).await?.body)?;
        if answer.truncated {
            let cause = "the repository has too many files".to_owned();
            return Err(CallError::Refused(cause));
        }
        let files = answer.tree.into_iter().filter(|it| it.kind == "blob");
        Ok(files.map(|entry| (entry.path, entry.sha)).collect())
    }

    async fn commit(
        &self,
        repo: &FoundRepo,
        changes: &BTreeMap<String, FileChange>,
        message: &str,
    ) -> Result<(), CallError> {
        commit::commit(self, repo, changes, message).await
    }
}
