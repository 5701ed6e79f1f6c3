//! CI variables of a project, of all environments (scope `*`). Those of single environments belong
//! to people.

use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GitLab, is_last_page};
use crate::{
    api_calls::{ApiRequest, CallError},
    provider::{FoundRepo, FoundVariable, PAGE_SIZE, SetVariable},
    providers::{decode, found, pages},
};

/// Scope of a variable that all environments get.
const ALL_ENVIRONMENTS: &str = "*";
/// Selects one of several variables with the same name.
const OF_ALL: [(&str, &str); 1] = [("filter[environment_scope]", ALL_ENVIRONMENTS)];

#[derive(Deserialize)]
struct Variable {
    key: String,
    /// `None` if it is hidden.
    #[serde(default)]
    value: Option<SecretString>,
    #[serde(default)]
    protected: bool,
    #[serde(default)]
    masked: bool,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    environment_scope: Option<String>,
}

pub(super) async fn list(
    gitlab: &GitLab,
    repo: &FoundRepo,
) -> Result<Vec<FoundVariable>, CallError> {
    let path = ["projects", repo.id.as_str(), "variables"];
    let query = [("per_page", PAGE_SIZE)];
    let entries = pages(&gitlab.0, &path, &query, is_last_page).await?;
    let mut variables = Vec::new();
    for entry in entries {
        let it: Variable = decode(entry)?;
        let scope = it.environment_scope.as_deref();
        if scope.unwrap_or(ALL_ENVIRONMENTS) != ALL_ENVIRONMENTS {
            continue;
        }
        variables.push(FoundVariable {
            name: it.key,
            value: it.value,
            protected: it.protected,
            masked: it.masked,
            raw: it.raw,
        });
    }
    Ok(variables)
}

pub(super) async fn set(
    gitlab: &GitLab,
    repo: &FoundRepo,
    variable: &SetVariable,
    exists: bool,
) -> Result<(), CallError> {
    let mut body = json!({
        "value": variable.value.expose_secret(),
        "variable_type": "env_var",
        "protected": variable.protected,
        "masked": variable.masked,
        "raw": variable.raw,
    });
    if exists {
        return one(gitlab, Method::PUT, repo, &variable.name, Some(body)).await;
    }
    if let Some(fields) = body.as_object_mut() {
        fields.insert("key".to_owned(), json!(variable.name));
    }
    let path = ["projects", repo.id.as_str(), "variables"];
    let request = ApiRequest::new(Method::POST, &path).body(body);
    gitlab.0.call(request).await.map(drop)
}

pub(super) async fn remove(gitlab: &GitLab, repo: &FoundRepo, name: &str) -> Result<(), CallError> {
    found(one(gitlab, Method::DELETE, repo, name, None).await).map(drop)
}

async fn one(
    gitlab: &GitLab,
    method: Method,
    repo: &FoundRepo,
    name: &str,
    body: Option<Value>,
) -> Result<(), CallError> {
    let path = ["projects", repo.id.as_str(), "variables", name];
    let mut request = ApiRequest::new(method, &path).query(&OF_ALL);
    request.body = body;
    gitlab.0.call(request).await.map(drop)
}
