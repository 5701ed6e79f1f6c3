//! GitLab, by its REST API (`/api/v4`).

mod merge_requests;
mod tokens;
mod variables;

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::resources::{AccessTokenSettings, DeployKey};
use http::{HeaderMap, Method};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use time::Date;

use super::{decode, found, pages};
use crate::{
    address::RepoPath,
    api_calls::{ApiCalls, ApiRequest, CallError},
    provider::{
        FIRST_BRANCH, FileChange, FoundKey, FoundRepo, FoundToken, FoundVariable, PAGE_SIZE,
        Provider, SetVariable, Tree,
    },
};

pub(crate) struct GitLab(pub(crate) ApiCalls);

#[derive(Deserialize)]
struct Project {
    id: u64,
    path_with_namespace: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    empty_repo: bool,
    #[serde(default)]
    default_branch: Option<String>,
}

#[derive(Deserialize)]
struct Key {
    id: u64,
    title: String,
    key: String,
    #[serde(default)]
    can_push: bool,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Namespace {
    id: u64,
}

impl TryFrom<Project> for FoundRepo {
    type Error = CallError;

    fn try_from(project: Project) -> Result<Self, CallError> {
        let path = RepoPath::parse(&project.path_with_namespace);
        let wrong = || CallError::Unavailable("the project has no valid path".to_owned());
        Ok(FoundRepo {
            id: project.id.to_string(),
            path: path.ok_or_else(wrong)?,
            description: project.description.unwrap_or_default(),
            archived: project.archived,
            is_empty: project.empty_repo || project.default_branch.is_none(),
            branch: (project.default_branch).unwrap_or_else(|| FIRST_BRANCH.to_owned()),
        })
    }
}

impl GitLab {
    async fn to_project(
        &self,
        method: Method,
        repo: &FoundRepo,
        below: &[&str],
        body: Option<Value>,
    ) -> Result<Value, CallError> {
        let path = [&["projects", &repo.id], below].concat();
        let mut request = ApiRequest::new(method, &path);
        request.body = body;
        Ok(self.0.call(request).await?.body)
    }

    async fn namespace(&self, path: &str) -> Result<Option<Namespace>, CallError> {
        let answer = self.0.call(ApiRequest::get(&["namespaces", path])).await;
        let answer = found(answer)?;
        answer.map(|answer| decode(answer.body)).transpose()
    }
}

/// The header is empty on the last page.
fn is_last_page(headers: &HeaderMap, _: usize, _: usize) -> bool {
    let next = headers.get("x-next-page");
    next.is_none_or(|it| it.is_empty())
}

#[async_trait]
impl Provider for GitLab {
    fn has_subgroups(&self) -> bool {
        true
    }

    async fn read(&self, path: &RepoPath) -> Result<Option<FoundRepo>, CallError> {
        let path = path.to_string();
        let answer = match self.0.call(ApiRequest::get(&["projects", &path])).await {
            Err(CallError::Moved(target)) => self.0.follow(target).await,
            answer => answer,
        };
        let Some(answer) = found(answer)? else {
            return Ok(None);
        };
        Ok(Some(decode::<Project>(answer.body)?.try_into()?))
    }

    async fn create(&self, path: &RepoPath, description: &str) -> Result<FoundRepo, CallError> {
        let namespace = self.namespace(&path.group).await?;
        let namespace = namespace.ok_or(CallError::Missing)?;
        let body = json!({
            "name": path.name,
            "path": path.name,
            "namespace_id": namespace.id,
            "description": description,
            "visibility": "private",
        });
        let request = ApiRequest::new(Method::POST, &["projects"]).body(body);
        decode::<Project>(self.0.call(request).await?.body)?.try_into()
    }

    async fn has_group(&self, group: &str) -> Result<bool, CallError> {
        Ok(self.namespace(group).await?.is_some())
    }

    async fn create_group(&self, group: &str) -> Result<(), CallError> {
        let (parent, name) = match group.rsplit_once('/') {
            Some((parent, name)) => (Some(parent), name),
            None => (None, group),
        };
        let body = match parent {
            Some(parent) => {
                let parent = self.namespace(parent).await?.ok_or(CallError::Missing)?;
                json!({ "name": name, "path": name, "visibility": "private", "parent_id": parent.id })
            }
            None => json!({ "name": name, "path": name, "visibility": "private" }),
        };
        let request = ApiRequest::new(Method::POST, &["groups"]).body(body);
        self.0.call(request).await.map(drop)
    }

    async fn describe(&self, repo: &FoundRepo, description: &str) -> Result<(), CallError> {
        let body = json!({ "description": description });
        self.to_project(Method::PUT, repo, &[], Some(body))
            .await
            .map(drop)
    }

    async fn set_archived(&self, repo: &FoundRepo, archived: bool) -> Result<(), CallError> {
        let action = if archived { "archive" } else { "unarchive" };
        self.to_project(Method::POST, repo, &[action], None)
            .await
            .map(drop)
    }

    async fn delete(&self, repo: &FoundRepo) -> Result<(), CallError> {
        self.to_project(Method::DELETE, repo, &[], None)
            .await
            .map(drop)
    }

    async fn deploy_keys(&self, repo: &FoundRepo) -> Result<Vec<FoundKey>, CallError> {
        let path = ["projects", repo.id.as_str(), "deploy_keys"];
        let entries = pages(&self.0, &path, &[("per_page", PAGE_SIZE)], is_last_page).await?;
        let keys = entries.into_iter().map(|entry| {
            let key: Key = decode(entry)?;
            Ok(FoundKey {
                id: key.id.to_string(),
                title: key.title,
                key: key.key,
                write_access: key.can_push,
            })
        });
        keys.collect()
    }

    async fn add_deploy_key(
        &self,
        repo: &FoundRepo,
        title: &str,
        key: &DeployKey,
    ) -> Result<(), CallError> {
        let body = json!({
            "title": title,
            "key": key.key.trim_end(),
            "can_push": key.write_access,
        });
        self.to_project(Method::POST, repo, &["deploy_keys"], Some(body))
            .await
            .map(drop)
    }

    async fn remove_deploy_key(&self, repo: &FoundRepo, id: &str) -> Result<(), CallError> {
        found(
            self.to_project(Method::DELETE, repo, &["deploy_keys", id], None)
                .await,
        )
        .map(drop)
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
        variables::remove(self, repo, &variable.name).await
    }

    fn has_access_tokens(&self) -> bool {
        true
    }

    async fn access_tokens(&self, repo: &FoundRepo) -> Result<Vec<FoundToken>, CallError> {
        tokens::list(self, repo).await
    }

    async fn create_access_token(
        &self,
        repo: &FoundRepo,
        name: &str,
        settings: &AccessTokenSettings,
        expires: Date,
    ) -> Result<(FoundToken, SecretString), CallError> {
        tokens::create(self, repo, name, settings, expires).await
    }

    async fn revoke_access_token(&self, repo: &FoundRepo, id: &str) -> Result<(), CallError> {
        tokens::revoke(self, repo, id).await
    }

    async fn tree(&self, repo: &FoundRepo) -> Result<Tree, CallError> {
        if repo.is_empty {
            return Ok(Tree::new());
        }
        let path = ["projects", repo.id.as_str(), "repository", "tree"];
        let query = [
            ("recursive", "true"),
            ("ref", repo.branch.as_str()),
            ("per_page", PAGE_SIZE),
        ];
        let entries = pages(&self.0, &path, &query, is_last_page).await?;
        let entries = entries.into_iter().map(decode);
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        let files = entries.into_iter().filter(|entry| entry.kind == "blob");
        Ok(files.map(|entry| (entry.path, entry.id)).collect())
    }

    async fn commit(
        &self,
        repo: &FoundRepo,
        changes: &BTreeMap<String, FileChange>,
        message: &str,
    ) -> Result<(), CallError> {
        let write = |action: &str, path: &str, content: &str| {
            let content = STANDARD.encode(content);
            json!({ "action": action, "file_path": path, "content": content, "encoding": "base64" })
        };
        let actions = changes.iter().map(|(path, change)| match change {
            FileChange::Create(content) => write("create", path, content),
            FileChange::Update(content, _) => write("update", path, content),
            FileChange::Delete(_) => json!({ "action": "delete", "file_path": path }),
        });
        let actions: Vec<_> = actions.collect();
        let body = json!({ "branch": repo.branch, "commit_message": message, "actions": actions });
        self.to_project(Method::POST, repo, &["repository", "commits"], Some(body))
            .await
            .map(drop)
    }
}
