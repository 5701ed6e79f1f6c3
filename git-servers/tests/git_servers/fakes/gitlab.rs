//! API of GitLab 18 (docs.gitlab.com/api: projects, groups, namespaces, deploy keys, repositories,
//! commits).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Asked, Fault, Told,
    model::{Forge, LOGIN, Repo, blob_id},
    tokens, told, variables,
};

/// Largest page.
const MAX_ITEMS: usize = 100;

pub(super) fn tell(forge: &mut Forge, asked: &Asked<'_>, authorized: bool) -> Told {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    match forge.fault {
        Some(Fault::Expired) => {
            let body = json!({ "error": "invalid_token", "error_description": "Token is expired. You can either do re-authorization or token refresh." });
            return told(401, body);
        }
        Some(Fault::Throttled) => {
            let reset = std::time::SystemTime::now() + std::time::Duration::from_secs(99);
            let reset = reset.duration_since(std::time::UNIX_EPOCH).unwrap();
            let fields = vec![
                ("retry-after", "7".to_owned()),
                ("ratelimit-reset", reset.as_secs().to_string()),
            ];
            return Told(429, fields, json!({ "message": "Too Many Requests" }));
        }
        Some(Fault::Broken) => return told(500, json!({ "message": "500 Internal Server Error" })),
        _ if !authorized => return told(401, json!({ "message": "401 Unauthorized" })),
        _ => {}
    }
    let missing = || told(404, json!({ "message": "404 Project Not Found" }));
    match (asked.method, &path[..]) {
        ("GET", ["version"]) => told(200, json!({ "version": "18.1.0", "revision": "0" })),
        ("GET", ["namespaces", name]) if forge.has_group(name) => {
            let kind = if *name == LOGIN { "user" } else { "group" };
            told(
                200,
                json!({ "id": group_id(forge, name), "full_path": name, "kind": kind }),
            )
        }
        ("POST", ["groups"]) => create_group(forge, asked),
        ("POST", ["projects"]) => create(forge, asked),
        (_, ["projects", project, below @ ..]) => {
            if let Some(new) = forge.renamed.get(*project) {
                let id = forge.repos[new].id;
                let fields = vec![("location", format!("{}projects/{id}", asked.base))];
                let text = "Resource has been moved to this location";
                return Told(301, fields, json!({ "message": text }));
            }
            match forge.find(project).map(|it| it.path.clone()) {
                Some(project) => of_project(forge, asked, &project, below),
                None => missing(),
            }
        }
        _ => missing(),
    }
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

/// Number of a group: its place in the order of names is enough for a request.
fn group_id(forge: &Forge, name: &str) -> u64 {
    let at = forge.groups.iter().position(|it| it == name);
    at.map_or(0, |at| at as u64 + 1)
}

fn group_of(forge: &Forge, id: u64) -> Option<String> {
    match id {
        0 => Some(LOGIN.to_owned()),
        id => forge
            .groups
            .iter()
            .nth(usize::try_from(id).unwrap() - 1)
            .cloned(),
    }
}

fn create_group(forge: &mut Forge, asked: &Asked<'_>) -> Told {
    let mut path = text(&asked.body, "path");
    if let Some(parent) = asked.body["parent_id"].as_u64() {
        path = format!("{}/{path}", group_of(forge, parent).unwrap());
    }
    if !forge.groups.insert(path.clone()) {
        let body =
            json!({ "message": "Failed to save group {:path=>[\"has already been taken\"]}" });
        return told(400, body);
    }
    told(
        201,
        json!({ "id": group_id(forge, &path), "full_path": path }),
    )
}

fn create(forge: &mut Forge, asked: &Asked<'_>) -> Told {
    let id = asked.body["namespace_id"].as_u64().unwrap_or(0);
    let Some(group) = group_of(forge, id) else {
        return told(400, json!({ "message": { "namespace": ["is not valid"] } }));
    };
    let path = format!("{group}/{}", text(&asked.body, "path"));
    if forge.repos.contains_key(&path) || forge.fault == Some(Fault::Conflict) {
        let taken = ["has already been taken"];
        let body = json!({ "message": { "name": taken, "path": taken } });
        return told(400, body);
    }
    forge.add(&path, &text(&asked.body, "description"));
    told(201, project(&forge.repos[&path]))
}

fn project(repo: &Repo) -> Value {
    let description = Some(&repo.description).filter(|it| !it.is_empty());
    json!({
        "id": repo.id,
        "name": repo.name(),
        "path": repo.name(),
        "path_with_namespace": repo.path,
        "description": description,
        "default_branch": repo.branch,
        "archived": repo.archived,
        "empty_repo": repo.head.is_none(),
        "visibility": "private",
        "ssh_url_to_repo": format!("git@localhost:{}.git", repo.path),
    })
}

fn of_project(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let found = forge.repos.get_mut(repo).unwrap();
    match (asked.method, below) {
        ("GET", []) => told(200, project(found)),
        ("PUT", []) => {
            found.description = text(&asked.body, "description");
            told(200, project(found))
        }
        ("DELETE", []) => {
            forge.repos.remove(repo);
            told(202, json!({ "message": "202 Accepted" }))
        }
        ("POST", ["archive"]) => {
            found.archived = true;
            told(201, project(found))
        }
        ("POST", ["unarchive"]) => {
            found.archived = false;
            told(201, project(found))
        }
        ("GET", ["deploy_keys"]) => keys(forge, asked, repo),
        ("POST", ["deploy_keys"]) => {
            let (title, key) = (text(&asked.body, "title"), text(&asked.body, "key"));
            let write = asked.body["can_push"] == true;
            let in_use = forge.fault == Some(Fault::KeyInUse);
            if in_use || forge.add_key(repo, &title, &key, write).is_err() {
                let taken = ["has already been taken"];
                let body = json!({ "message": { "deploy_key.fingerprint_sha256": taken } });
                return told(400, body);
            }
            told(
                201,
                json!({ "id": 1, "title": title, "key": key, "can_push": write }),
            )
        }
        ("DELETE", ["deploy_keys", id]) => {
            found.keys.retain(|it| it.id.to_string() != *id);
            told(204, Value::Null)
        }
        (_, ["access_tokens", below @ ..]) => tokens::answer(forge, asked, repo, below),
        (_, ["variables", below @ ..]) => variables::gitlab(forge, asked, repo, below),
        ("GET", ["repository", "tree"]) => tree(forge, asked, repo),
        ("POST", ["repository", "commits"]) if found.archived => told(
            403,
            json!({ "message": "You are not allowed to push into this branch" }),
        ),
        ("POST", ["repository", "commits"]) => commit(forge, asked, repo),
        _ => told(404, json!({ "error": "404 Not Found" })),
    }
}

/// The header of the next page is empty on the last one.
pub(super) fn next_page(asked: &Asked<'_>, more: bool) -> Vec<(&'static str, String)> {
    let page: usize = asked.query.get("page").map_or(1, |it| it.parse().unwrap());
    let next = if more {
        (page + 1).to_string()
    } else {
        String::new()
    };
    vec![("x-next-page", next)]
}

fn keys(forge: &Forge, asked: &Asked<'_>, repo: &str) -> Told {
    let (page, more) = asked.page("per_page", MAX_ITEMS, &forge.repos[repo].keys);
    let entries = page.iter().map(|key| {
        json!({
            "id": key.id,
            "title": key.title,
            // GitLab keeps the comment.
            "key": format!("{} me@example", key.key),
            "can_push": key.write_access,
        })
    });
    Told(200, next_page(asked, more), entries.collect())
}

fn tree(forge: &Forge, asked: &Asked<'_>, repo: &str) -> Told {
    let repo = &forge.repos[repo];
    if repo.head.is_none() || asked.query.get("ref") != Some(&repo.branch) {
        return told(404, json!({ "message": "404 Tree Not Found" }));
    }
    let entries = repo.files().iter().map(|(path, content)| {
        json!({ "id": blob_id(content), "name": path, "path": path, "type": "blob", "mode": "100644" })
    });
    let entries: Vec<_> = entries.collect();
    let (page, more) = asked.page("per_page", MAX_ITEMS, &entries);
    Told(200, next_page(asked, more), json!(page))
}

fn commit(forge: &mut Forge, asked: &Asked<'_>, repo: &str) -> Told {
    assert_eq!(asked.body["branch"], *forge.repos[repo].branch);
    let mut files = forge.repos[repo].files().clone();
    for action in asked.body["actions"].as_array().unwrap() {
        let path = text(action, "file_path");
        let content = STANDARD.decode(text(action, "content")).unwrap();
        let content = String::from_utf8(content).unwrap();
        let fits = match text(action, "action").as_str() {
            "create" => files.insert(path, content).is_none(),
            "update" => files.insert(path, content).is_some(),
            "delete" => files.remove(&path).is_some(),
            _ => false,
        };
        if !fits {
            return told(
                400,
                json!({ "message": "A file with this name already exists" }),
            );
        }
    }
    let id = forge.commit(repo, &text(&asked.body, "commit_message"), files);
    told(201, json!({ "id": id }))
}
