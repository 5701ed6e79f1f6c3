//! Variables and secrets of Gitea's Actions. A masked variable is a secret, whose value nobody can
//! read.

use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Gitea, is_last_page};
use crate::{
    api_calls::CallError,
    provider::{FoundRepo, FoundVariable, PAGE_SIZE, SetVariable},
    providers::{decode, found, pages},
};

#[derive(Deserialize)]
struct Variable {
    name: String,
    /// Secrets have none.
    #[serde(default)]
    data: Option<SecretString>,
}

pub(super) async fn list(gitea: &Gitea, repo: &FoundRepo) -> Result<Vec<FoundVariable>, CallError> {
    let mut all = Vec::new();
    for (place, masked) in [("variables", false), ("secrets", true)] {
        let path = ["repos", &repo.path.group, &repo.path.name, "actions", place];
        let entries = pages(&gitea.0, &path, &[("limit", PAGE_SIZE)], is_last_page).await?;
        for entry in entries {
            let it: Variable = decode(entry)?;
            all.push(FoundVariable {
                name: it.name,
                value: it.data.filter(|_| !masked),
                protected: false,
                masked,
                raw: false,
            });
        }
    }
    Ok(all)
}

pub(super) async fn set(
    gitea: &Gitea,
    repo: &FoundRepo,
    variable: &SetVariable,
    exists: bool,
) -> Result<(), CallError> {
    let value = variable.value.expose_secret();
    let (method, body) = match (variable.masked, exists) {
        (true, _) => (Method::PUT, json!({ "data": value })),
        (false, true) => (Method::PUT, json!({ "value": value })),
        (false, false) => (Method::POST, json!({ "value": value })),
    };
    let (name, masked) = (&variable.name, variable.masked);
    one(gitea, method, repo, (name, masked), Some(body)).await
}

pub(super) async fn remove(
    gitea: &Gitea,
    repo: &FoundRepo,
    variable: &FoundVariable,
) -> Result<(), CallError> {
    let of = (variable.name.as_str(), variable.masked);
    found(one(gitea, Method::DELETE, repo, of, None).await).map(drop)
}

async fn one(
    gitea: &Gitea,
    method: Method,
    repo: &FoundRepo,
    (name, masked): (&str, bool),
    body: Option<Value>,
) -> Result<(), CallError> {
    let place = if masked { "secrets" } else { "variables" };
    let below = ["actions", place, name];
    gitea.to_repo(method, repo, &below, body).await.map(drop)
}
