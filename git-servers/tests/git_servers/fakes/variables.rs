//! CI variables of the three APIs: docs.gitlab.com/api/project_level_variables,
//! docs.github.com/rest/actions/variables and secrets, and Gitea's description.

use base64::{Engine, engine::general_purpose::STANDARD};
use crypto_box::SecretKey;
use serde_json::{Value, json};

use super::{
    Asked, Told,
    model::{Forge, Repo, Variable},
    told,
};

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

fn flag(body: &Value, name: &str) -> bool {
    body[name] == true
}

fn find<'a>(repo: &'a mut Repo, name: &str, masked: Option<bool>) -> Option<&'a mut Variable> {
    let is_it = |it: &&mut Variable| it.name == name && masked.is_none_or(|flag| it.masked == flag);
    repo.variables.iter_mut().find(is_it)
}

pub(super) fn gitlab(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let found = forge.repos.get_mut(repo).unwrap();
    let in_scope = |asked: &Asked<'_>| asked.query["filter[environment_scope]"] == "*";
    match (asked.method, below) {
        ("GET", []) => {
            let (page, more) = asked.page("per_page", 100, &found.variables);
            let entries = page.iter().map(|it| {
                json!({
                    "variable_type": "env_var", "key": it.name, "value": it.value,
                    "protected": it.protected, "masked": it.masked, "raw": it.raw,
                    "hidden": false, "environment_scope": "*", "description": null,
                })
            });
            Told(
                200,
                super::gitlab::next_page(asked, more),
                entries.collect(),
            )
        }
        ("POST", []) => {
            let name = text(&asked.body, "key");
            if find(found, &name, None).is_some() {
                let cause = format!("({name}) has already been taken");
                return told(400, json!({ "message": { "key": [cause] } }));
            }
            found.variables.push(of_gitlab(name, &asked.body));
            told(201, json!({}))
        }
        ("PUT", [name]) if in_scope(asked) => {
            let Some(variable) = find(found, name, None) else {
                return told(404, json!({ "message": "404 Variable Not Found" }));
            };
            *variable = of_gitlab((*name).to_owned(), &asked.body);
            told(200, json!({}))
        }
        ("DELETE", [name]) if in_scope(asked) => {
            found.variables.retain(|it| it.name != *name);
            told(204, Value::Null)
        }
        _ => told(404, json!({ "error": "404 Not Found" })),
    }
}

fn of_gitlab(name: String, body: &Value) -> Variable {
    Variable {
        name,
        value: text(body, "value"),
        protected: flag(body, "protected"),
        masked: flag(body, "masked"),
        raw: flag(body, "raw"),
    }
}

fn of_actions(name: &str, value: String, masked: bool) -> Variable {
    Variable {
        name: name.to_uppercase(),
        value,
        masked,
        ..Variable::default()
    }
}

fn put(repo: &mut Repo, variable: Variable) {
    repo.variables
        .retain(|it| it.name != variable.name || it.masked != variable.masked);
    repo.variables.push(variable);
}

/// Variables or secrets.
fn listed(repo: &Repo, masked: bool) -> Vec<Variable> {
    let all = repo.variables.iter().filter(|it| it.masked == masked);
    all.cloned().collect()
}

pub(super) fn gitea(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let found = forge.repos.get_mut(repo).unwrap();
    let Some((masked, below)) = place(below) else {
        return told(404, json!({ "message": "The target couldn't be found." }));
    };
    match (asked.method, below) {
        ("GET", []) => {
            let all = listed(found, masked);
            let (page, _) = asked.page("limit", 50, &all);
            let entries = page.iter().map(|it| match masked {
                true => json!({ "name": it.name, "created_at": "2026-01-01T00:00:00Z", "description": "" }),
                false => json!({ "owner_id": 0, "repo_id": 1, "name": it.name, "data": it.value, "description": "" }),
            });
            let count = vec![("x-total-count", all.len().to_string())];
            Told(200, count, entries.collect())
        }
        ("PUT", [name]) if masked => {
            put(found, of_actions(name, text(&asked.body, "data"), true));
            told(201, Value::Null)
        }
        ("POST", [name]) if find(found, &name.to_uppercase(), Some(false)).is_some() => {
            told(409, json!({ "message": "variable already exists" }))
        }
        ("POST" | "PUT", [name]) => {
            put(found, of_actions(name, text(&asked.body, "value"), false));
            told(201, Value::Null)
        }
        ("DELETE", [name]) => {
            let name = name.to_uppercase();
            found
                .variables
                .retain(|it| it.name != name || it.masked != masked);
            told(204, Value::Null)
        }
        _ => told(404, json!({ "message": "The target couldn't be found." })),
    }
}

fn place<'a>(below: &'a [&'a str]) -> Option<(bool, &'a [&'a str])> {
    match below {
        ["variables", below @ ..] => Some((false, below)),
        ["secrets", below @ ..] => Some((true, below)),
        _ => None,
    }
}

/// Key of all repositories for secrets.
fn secret_key() -> SecretKey {
    SecretKey::from([9; 32])
}

pub(super) fn github(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let found = forge.repos.get_mut(repo).unwrap();
    let missing = || told(404, json!({ "message": "Not Found" }));
    let Some((masked, below)) = place(below) else {
        return missing();
    };
    match (asked.method, below) {
        ("GET", ["public-key"]) if masked => {
            let key = STANDARD.encode(secret_key().public_key().as_bytes());
            told(200, json!({ "key_id": "012345678912345678", "key": key }))
        }
        ("GET", []) => {
            let all = listed(found, masked);
            let (page, more) = asked.page("per_page", 30, &all);
            let entries = page.iter().map(|it| {
                let mut entry = json!({ "name": it.name, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z" });
                if !masked {
                    entry["value"] = json!(it.value);
                }
                entry
            });
            let entries: Vec<_> = entries.collect();
            let list = if masked { "secrets" } else { "variables" };
            let links = super::github::links(more);
            Told(
                200,
                links,
                json!({ "total_count": all.len(), list: entries }),
            )
        }
        ("PUT", [name]) if masked => {
            assert_eq!(asked.body["key_id"], "012345678912345678");
            let sealed = STANDARD.decode(text(&asked.body, "encrypted_value"));
            let opened = secret_key().unseal(&sealed.unwrap()).unwrap();
            let value = String::from_utf8(opened).unwrap();
            put(found, of_actions(name, value, true));
            told(201, json!({}))
        }
        ("POST", []) => {
            let name = text(&asked.body, "name");
            if find(found, &name, Some(false)).is_some() {
                return told(
                    409,
                    json!({ "message": "Already exists - Variable already exists" }),
                );
            }
            put(found, of_actions(&name, text(&asked.body, "value"), false));
            told(201, json!({}))
        }
        ("PATCH", [name]) if !masked => {
            put(found, of_actions(name, text(&asked.body, "value"), false));
            told(204, Value::Null)
        }
        ("DELETE", [name]) => {
            found
                .variables
                .retain(|it| it.name != *name || it.masked != masked);
            told(204, Value::Null)
        }
        _ => missing(),
    }
}
