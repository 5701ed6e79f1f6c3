//! API of GitHub Enterprise Server (docs.github.com/rest, version 2022-11-28).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Asked, Fault, Told,
    model::{Files, Forge, LOGIN, Repo, blob_id},
    told, variables,
};

/// Largest page.
const MAX_ITEMS: usize = 100;

fn problem(status: u16, text: &str) -> Told {
    told(
        status,
        json!({ "message": text, "documentation_url": "https://docs.github.com/rest" }),
    )
}

fn invalid(resource: &str, field: &str, text: &str) -> Told {
    let error = json!({ "resource": resource, "code": "custom", "field": field, "message": text });
    told(
        422,
        json!({ "message": "Validation Failed", "errors": [error] }),
    )
}

pub(super) fn tell(forge: &mut Forge, asked: &Asked<'_>, authorized: bool) -> Told {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    if let ("GET", ["meta"]) = (asked.method, &path[..]) {
        return told(
            200,
            json!({ "verifiable_password_authentication": true, "installed_version": "3.17.0" }),
        );
    }
    match forge.fault {
        Some(Fault::Expired) => return problem(401, "Bad credentials"),
        Some(Fault::Throttled) => {
            let fields = vec![("retry-after", "7".to_owned())];
            let text = "You have exceeded a secondary rate limit.";
            return Told(403, fields, json!({ "message": text }));
        }
        Some(Fault::Broken) => return problem(502, "Server Error"),
        _ if !authorized => return problem(401, "Requires authentication"),
        _ => {}
    }
    match (asked.method, &path[..]) {
        ("GET", ["user"]) => told(200, json!({ "id": 1, "login": LOGIN })),
        ("GET", ["users", name]) if forge.has_group(name) => told(
            200,
            json!({ "id": 1, "login": name, "type": "Organization" }),
        ),
        ("POST", ["admin", "organizations"]) => {
            forge.groups.insert(text(&asked.body, "login"));
            told(201, json!({ "id": 1, "login": text(&asked.body, "login") }))
        }
        ("POST", ["orgs", group, "repos"]) if forge.groups.contains(*group) => {
            create(forge, asked, group)
        }
        ("POST", ["user", "repos"]) => create(forge, asked, LOGIN),
        ("GET", ["repositories", id]) => match forge.find(id) {
            Some(repo) => told(200, repository(repo)),
            None => problem(404, "Not Found"),
        },
        (_, ["repos", group, name, below @ ..]) => {
            let repo = format!("{group}/{name}");
            if let Some(new) = forge.renamed.get(&repo) {
                let id = forge.repos[new].id;
                let fields = vec![("location", format!("{}repositories/{id}", asked.base))];
                return Told(301, fields, json!({ "message": "Moved Permanently" }));
            }
            if forge.repos.contains_key(&repo) {
                return of_repo(forge, asked, &repo, below);
            }
            problem(404, "Not Found")
        }
        _ => problem(404, "Not Found"),
    }
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

fn create(forge: &mut Forge, asked: &Asked<'_>, group: &str) -> Told {
    let path = format!("{group}/{}", text(&asked.body, "name"));
    if forge.repos.contains_key(&path) || forge.fault == Some(Fault::Conflict) {
        return invalid("Repository", "name", "name already exists on this account");
    }
    forge.add(&path, &text(&asked.body, "description"));
    told(201, repository(&forge.repos[&path]))
}

fn repository(repo: &Repo) -> Value {
    let description = Some(&repo.description).filter(|it| !it.is_empty());
    json!({
        "id": repo.id,
        "name": repo.name(),
        "full_name": repo.path,
        "private": true,
        "description": description,
        "archived": repo.archived,
        "default_branch": repo.branch,
        "ssh_url": format!("git@localhost:{}.git", repo.path),
    })
}

fn of_repo(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let found = forge.repos.get_mut(repo).unwrap();
    match (asked.method, below) {
        ("GET", []) => told(200, repository(found)),
        ("PATCH", []) => {
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
                return invalid("PublicKey", "key", "key is already in use");
            }
            told(
                201,
                json!({ "id": 1, "title": title, "key": key, "read_only": !write }),
            )
        }
        ("DELETE", ["keys", id]) => {
            found.keys.retain(|it| it.id.to_string() != *id);
            told(204, Value::Null)
        }
        (_, ["actions", below @ ..]) => variables::github(forge, asked, repo, below),
        ("PUT", ["contents", path @ ..]) => {
            let content = STANDARD.decode(text(&asked.body, "content")).unwrap();
            let mut files = found.files().clone();
            files.insert(path.join("/"), String::from_utf8(content).unwrap());
            forge.commit(repo, &text(&asked.body, "message"), files);
            told(201, json!({ "content": {}, "commit": {} }))
        }
        (_, ["git", ..]) if found.head.is_none() => problem(409, "Git Repository is empty."),
        (_, ["git", below @ ..]) => of_git(forge, asked, repo, below),
        _ => problem(404, "Not Found"),
    }
}

fn of_git(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let branch = forge.repos[repo].branch.clone();
    match (asked.method, below) {
        ("GET", ["ref", "heads", name]) if *name == branch => {
            let sha = forge.repos[repo].head.clone();
            let name = format!("refs/heads/{branch}");
            told(
                200,
                json!({ "ref": name, "object": { "type": "commit", "sha": sha } }),
            )
        }
        ("GET", ["commits", id]) => {
            let commit = &forge.commits[*id];
            told(200, json!({ "sha": id, "tree": { "sha": commit.tree } }))
        }
        // A commit names its tree.
        ("GET", ["trees", id]) => {
            let tree = forge.commits.get(*id).map_or(*id, |it| &it.tree);
            let entries = forge.trees[tree].iter().map(|(path, content)| {
                json!({ "path": path, "mode": "100644", "type": "blob", "sha": blob_id(content) })
            });
            let entries: Vec<_> = entries.collect();
            told(
                200,
                json!({ "sha": id, "tree": entries, "truncated": false }),
            )
        }
        ("POST", ["trees"]) => {
            let base = asked.body["base_tree"].as_str();
            let mut files = base.map_or_else(Files::new, |it| forge.trees[it].clone());
            for entry in asked.body["tree"].as_array().unwrap() {
                match entry["content"].as_str() {
                    Some(content) => files.insert(text(entry, "path"), content.to_owned()),
                    None => files.remove(&text(entry, "path")),
                };
            }
            told(201, json!({ "sha": forge.add_tree(files) }))
        }
        ("POST", ["commits"]) => {
            let parents = asked.body["parents"].as_array().unwrap();
            let parents = parents.iter().map(|it| it.as_str().unwrap().to_owned());
            let parents = parents.collect();
            let sha = forge.add_commit(text(&asked.body, "tree"), parents);
            told(201, json!({ "sha": sha }))
        }
        ("PATCH", ["refs", "heads", name]) if *name == branch => {
            let sha = text(&asked.body, "sha");
            let head = forge.repos[repo].head.clone().unwrap();
            let follows = forge.commits[&sha].parents.contains(&head);
            if forge.repos[repo].archived || !follows && asked.body["force"] != true {
                return problem(422, "Update is not a fast forward");
            }
            forge.set_head(repo, &sha);
            told(
                200,
                json!({ "ref": name, "object": { "type": "commit", "sha": sha } }),
            )
        }
        _ => problem(404, "Not Found"),
    }
}

fn keys(forge: &Forge, asked: &Asked<'_>, repo: &str) -> Told {
    let (page, more) = asked.page("per_page", MAX_ITEMS, &forge.repos[repo].keys);
    let entries = page.iter().map(|key| {
        json!({ "id": key.id, "title": key.title, "key": key.key, "read_only": !key.write_access, "verified": true })
    });
    Told(200, links(more), entries.collect())
}

pub(super) fn links(more: bool) -> Vec<(&'static str, String)> {
    let links = match more {
        true => "<http://x/?page=2>; rel=\"next\", <http://x/?page=9>; rel=\"last\"",
        false => "<http://x/?page=1>; rel=\"first\"",
    };
    vec![("link", links.to_owned())]
}
