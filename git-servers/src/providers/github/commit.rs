//! One commit with all changes, by GitHub's Git database.
//!
//! That API refuses an empty repository (409), so the first file is written by the API of
//! contents, and its commit is then replaced by one with all files.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::GitHub;
use crate::{
    api_calls::CallError,
    provider::{FileChange, FoundRepo},
    providers::decode,
};

#[derive(Deserialize)]
struct Reference {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    sha: String,
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
    tree: Object,
}

/// Last commit of the default branch and its tree; `None` for an empty repository.
pub(super) async fn head(
    github: &GitHub,
    repo: &FoundRepo,
) -> Result<Option<(String, String)>, CallError> {
    let below = ref_path("ref", &repo.branch);
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    let found = github.to_repo(Method::GET, repo, &below, None).await;
    let reference: Reference = match found {
        Ok(body) => decode(body)?,
        // 409: the repository is empty.
        Err(CallError::Missing | CallError::Conflict(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let sha = reference.object.sha;
    let below = ["git", "commits", sha.as_str()];
    let commit = github.to_repo(Method::GET, repo, &below, None).await?;
    let commit: Commit = decode(commit)?;
    Ok(Some((commit.sha, commit.tree.sha)))
}

/// Path of a branch; its name may have slashes.
fn ref_path(kind: &str, branch: &str) -> Vec<String> {
    let parts = ["git", kind, "heads"].into_iter().chain(branch.split('/'));
    parts.map(str::to_owned).collect()
}

pub(super) async fn commit(
    github: &GitHub,
    repo: &FoundRepo,
    changes: &BTreeMap<String, FileChange>,
    message: &str,
) -> Result<(), CallError> {
    let head = head(github, repo).await?;
    let is_first = head.is_none();
    if is_first {
        write_first(github, repo, changes, message).await?;
    }
    let entries: Vec<Value> = (changes.iter())
        .map(|(path, change)| match change {
            FileChange::Create(content) | FileChange::Update(content, _) => {
                json!({ "path": path, "mode": "100644", "type": "blob", "content": content })
            }
            FileChange::Delete(_) => {
                json!({ "path": path, "mode": "100644", "type": "blob", "sha": null })
            }
        })
        .collect();
    let (tree, parents) = match head {
        Some((sha, base)) => (json!({ "tree": entries, "base_tree": base }), vec![sha]),
        None => (json!({ "tree": entries }), Vec::new()),
    };
    let tree: Object = decode(post(github, repo, "trees", tree).await?)?;
    let body = json!({ "message": message, "tree": tree.sha, "parents": parents });
    let commit: Object = decode(post(github, repo, "commits", body).await?)?;
    let below = ref_path("refs", &repo.branch);
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    // Without force a push of somebody else in between is kept, and this call is repeated later.
    let body = json!({ "sha": commit.sha, "force": is_first });
    github
        .to_repo(Method::PATCH, repo, &below, Some(body))
        .await
        .map(drop)
}

async fn write_first(
    github: &GitHub,
    repo: &FoundRepo,
    changes: &BTreeMap<String, FileChange>,
    message: &str,
) -> Result<(), CallError> {
    let first = changes.iter().find_map(|(path, change)| match change {
        FileChange::Create(content) => Some((path, content)),
        _ => None,
    });
    let Some((path, content)) = first else {
        return Ok(());
    };
    let below: Vec<&str> = ["contents"].into_iter().chain(path.split('/')).collect();
    let body = json!({ "message": message, "content": STANDARD.encode(content) });
    github
        .to_repo(Method::PUT, repo, &below, Some(body))
        .await
        .map(drop)
}

async fn post(
    github: &GitHub,
    repo: &FoundRepo,
    kind: &str,
    body: Value,
) -> Result<Value, CallError> {
    let below = ["git", kind];
    github.to_repo(Method::POST, repo, &below, Some(body)).await
}
