//! Variables and secrets of GitHub's Actions. A masked variable is a secret: GitHub takes it only
//! in a sealed box of libsodium for the key of the repository, and shows it to nobody.

use base64::{Engine, engine::general_purpose::STANDARD};
use crypto_box::{PublicKey, aead::OsRng};
use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GitHub, is_last_page};
use crate::{
    api_calls::{ApiRequest, CallError},
    provider::{FoundRepo, FoundVariable, MAX_PAGES, SetVariable},
    providers::{decode, found},
};

/// Largest page of variables; secrets have larger ones.
const PAGE_SIZE: &str = "30";

/// A page of variables or of secrets.
#[derive(Deserialize)]
struct Page {
    #[serde(alias = "secrets")]
    variables: Vec<Variable>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    /// Secrets have none.
    #[serde(default)]
    value: Option<SecretString>,
}

/// Key of a repository for its secrets.
#[derive(Deserialize)]
struct RepoKey {
    key_id: String,
    key: String,
}

pub(super) async fn list(
    github: &GitHub,
    repo: &FoundRepo,
) -> Result<Vec<FoundVariable>, CallError> {
    let mut all = Vec::new();
    for (place, masked) in [("variables", false), ("secrets", true)] {
        let path = ["repos", &repo.path.group, &repo.path.name, "actions", place];
        for number in 1..=MAX_PAGES {
            let number = number.to_string();
            let query = [("per_page", PAGE_SIZE), ("page", &number)];
            let answer = github.0.call(ApiRequest::get(&path).query(&query)).await?;
            let page: Page = decode(answer.body)?;
            let count = page.variables.len();
            all.extend(page.variables.into_iter().map(|it| FoundVariable {
                name: it.name,
                value: it.value.filter(|_| !masked),
                protected: false,
                masked,
                raw: false,
            }));
            if is_last_page(&answer.headers, count, all.len()) {
                break;
            }
        }
    }
    Ok(all)
}

pub(super) async fn set(
    github: &GitHub,
    repo: &FoundRepo,
    variable: &SetVariable,
    exists: bool,
) -> Result<(), CallError> {
    let (name, value) = (variable.name.as_str(), variable.value.expose_secret());
    if variable.masked {
        let body = sealed(github, repo, value).await?;
        let below = ["actions", "secrets", name];
        let done = github.to_repo(Method::PUT, repo, &below, Some(body));
        return done.await.map(drop);
    }
    let body = json!({ "name": name, "value": value });
    let one = ["actions", "variables", name];
    let (method, below) = match exists {
        true => (Method::PATCH, &one[..]),
        false => (Method::POST, &one[..2]),
    };
    github
        .to_repo(method, repo, below, Some(body))
        .await
        .map(drop)
}

/// Body with a secret in a sealed box.
async fn sealed(github: &GitHub, repo: &FoundRepo, value: &str) -> Result<Value, CallError> {
    let below = ["actions", "secrets", "public-key"];
    let key = github.to_repo(Method::GET, repo, &below, None).await?;
    let key: RepoKey = decode(key)?;
    let wrong = || CallError::Unavailable("the key for secrets is no key of libsodium".to_owned());
    let bytes = STANDARD.decode(&key.key).map_err(|_| wrong())?;
    let public = PublicKey::from_slice(&bytes).map_err(|_| wrong())?;
    let sealed = public.seal(&mut OsRng, value.as_bytes());
    let sealed = sealed.map_err(|_| wrong())?;
    Ok(json!({ "encrypted_value": STANDARD.encode(sealed), "key_id": key.key_id }))
}

pub(super) async fn remove(
    github: &GitHub,
    repo: &FoundRepo,
    variable: &FoundVariable,
) -> Result<(), CallError> {
    let place = if variable.masked {
        "secrets"
    } else {
        "variables"
    };
    let below = ["actions", place, variable.name.as_str()];
    found(github.to_repo(Method::DELETE, repo, &below, None).await).map(drop)
}
