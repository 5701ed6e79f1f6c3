//! API of Gitea 1.26 (`templates/swagger/v1_json.tmpl`).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Asked, Fault, Told,
    model::{Forge, LOGIN, Repo, blob_id},
    told, variables,
};

/// Largest page (`[api] MAX_RESPONSE_ITEMS`).
const MAX_ITEMS: usize = 50;

pub(super) fn tell(forge: &mut Forge, asked: &Asked<'_>, authorized: bool) -> Told {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    let message =
        |status, text: &str| told(status, json!({ "message": text, "url": "/api/swagger" }));
    if let (["version"], "GET") = (&path[..], asked.method) {
        return told(200, json!({ "version": "1.26.0" }));
    }
    match forge.fault {
        Some(Fault::Expired) => return message(401, "user does not exist [uid: 0, name: ]"),
        Some(Fault::Throttled) => {
            let fields = vec![("retry-after", "7".to_owned())];
            return Told(429, fields, Value::Null);
        }
        Some(Fault::Broken) => return message(500, "internal error"),
        _ if !authorized => return message(401, "token is required"),
        _ => {}
    }
    match (asked.method, &path[..]) {
        ("GET", ["user"]) => told(200, json!({ "id": 1, "login": LOGIN })),
        ("GET", ["orgs", name]) if forge.groups.contains(*name) => {
            told(200, json!({ "id": 1, "username": name, "name": name }))
        }
        ("GET", ["users", name]) if forge.has_group(name) => {
            told(200, json!({ "id": 1, "login": name }))
        }
        ("POST", ["orgs"]) => {
            let name = text(&asked.body, "username");
            if !forge.groups.insert(name.clone()) {
                return message(422, "user already exists");
            }
            told(201, json!({ "id": 1, "username": name }))
        }
        ("POST", ["orgs", group, "repos"]) if forge.groups.contains(*group) => {
            create(forge, asked, group)
        }
        ("POST", ["user", "repos"]) => create(forge, asked, LOGIN),
        (_, ["repos", group, name, below @ ..]) => {
            let repo = format!("{group}/{name}");
            if let Some(new) = forge.renamed.get(&repo) {
                let target = format!("{}repos/{new}", asked.base);
                return Told(307, vec![("location", target)], Value::Null);
            }
            if forge.repos.contains_key(&repo) {
                return of_repo(forge, asked, &repo, below);
            }
            message(404, "The target couldn't be found.")
        }
        _ => message(404, "The target couldn't be found."),
    }
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

fn create(forge: &mut Forge, asked: &Asked<'_>, group: &str) -> Told {
    let path = format!("{group}/{}", text(&asked.body, "name"));
    if forge.repos.contains_key(&path) || forge.fault == Some(Fault::Conflict) {
        let body = json!({ "message": "The repository with the same name already exists." });
        return told(409, body);
    }
    forge.add(&path, &text(&asked.body, "description"));
    told(201, repository(&forge.repos[&path]))
}

fn repository(repo: &Repo) -> Value {
    json!({
        "id": repo.id,
        "name": repo.name(),
        "full_name": repo.path,
        "description": repo.description,
        "empty": repo.head.is_none(),
        "private": true,
        "archived": repo.archived,
        "default_branch": repo.branch,
        "ssh_url": format!("git@localhost:{}.git", repo.path),
    })
}

fn of_repo(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let archived = forge.repos[repo].archived;
    match (asked.method, below) {
        ("GET", []) => told(200, repository(&forge.repos[repo])),
        ("PATCH", []) => {
            let found = forge.repos.get_mut(repo).unwrap();
            if let Some(archived) = asked.body["archived"].as_bool() {
                found.archived = archived;
            }
            if let Some(text) = asked.body["description"].as_str() {
                text.clone_into(&mut found.description);
            }
            told(200, repository(found))
        }
        ("DELETE", []) => {
            forge.repos.remove(repo);
            told(204, Value::Null)
        }
        ("GET", ["keys"]) => keys(forge, asked, repo),
        ("POST", ["keys"]) => {
            let (title, key) = (text(&asked.body, "title"), text(&asked.body, "key"));
            let write = asked.body["read_only"] == false;
            let in_use = forge.fault == Some(Fault::KeyInUse);
            if in_use || forge.add_key(repo, &title, &key, write).is_err() {
                let body = json!({ "message": "Key content has been used as non-deploy key" });
                return told(422, body);
            }
            told(
                201,
                json!({ "id": 1, "title": title, "key": key, "read_only": !write }),
            )
        }
        ("DELETE", ["keys", id]) => {
            let keys = &mut forge.repos.get_mut(repo).unwrap().keys;
            keys.retain(|it| it.id.to_string() != *id);
            told(204, Value::Null)
        }
        (_, ["actions", below @ ..]) => variables::gitea(forge, asked, repo, below),
        ("GET", ["git", "trees", branch]) if *branch == forge.repos[repo].branch => {
            let files = forge.repos[repo].files();
            let entries = files.iter().map(|(path, content)| {
                json!({ "path": path, "mode": "100644", "type": "blob", "sha": blob_id(content), "size": content.len() })
            });
            let entries: Vec<_> = entries.collect();
            let (page, more) = asked.page("per_page", 1000, &entries);
            told(
                200,
                json!({ "sha": "x", "tree": page, "truncated": more, "page": 1, "total_count": entries.len() }),
            )
        }
        ("POST", ["contents"]) if archived => told(423, json!({ "message": "repo is archived" })),
        ("POST", ["contents"]) => change_files(forge, asked, repo),
        _ => told(404, json!({ "message": "The target couldn't be found." })),
    }
}

fn keys(forge: &Forge, asked: &Asked<'_>, repo: &str) -> Told {
    let keys = &forge.repos[repo].keys;
    let (page, _) = asked.page("limit", MAX_ITEMS, keys);
    let entries = page.iter().map(|key| {
        json!({ "id": key.id, "key_id": key.id, "title": key.title, "key": key.key, "read_only": !key.write_access })
    });
    let fields = vec![("x-total-count", keys.len().to_string())];
    Told(200, fields, entries.collect())
}

fn change_files(forge: &mut Forge, asked: &Asked<'_>, repo: &str) -> Told {
    assert_eq!(asked.body["branch"], *forge.repos[repo].branch);
    let mut files = forge.repos[repo].files().clone();
    for file in asked.body["files"].as_array().unwrap() {
        let (path, sha) = (text(file, "path"), text(file, "sha"));
        let content = STANDARD.decode(text(file, "content")).unwrap();
        let content = String::from_utf8(content).unwrap();
        let old = files.get(&path).map(|it| blob_id(it));
        let fits = match text(file, "operation").as_str() {
            "create" => old.is_none() && files.insert(path, content).is_none(),
            "update" => old == Some(sha) && files.insert(path, content).is_some(),
            "delete" => old == Some(sha) && files.remove(&path).is_some(),
            _ => false,
        };
        if !fits {
            return told(422, json!({ "message": "sha does not match" }));
        }
    }
    forge.commit(repo, &text(&asked.body, "message"), files);
    told(201, json!({ "files": [] }))
}
