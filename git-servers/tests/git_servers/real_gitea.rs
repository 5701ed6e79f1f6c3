//! A real Gitea.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_e2e::gitea::Gitea;
use serde_json::{Value, json};

use crate::{
    cases::contract,
    host::{Host, Observed},
};

struct RealGitea {
    gitea: Gitea,
    token: String,
}

#[tokio::test]
#[ignore = "needs Gitea, which takes minutes to build: `make gitea`"]
async fn real_gitea_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    let gitea = Gitea::start(&home.path().join("gitea")).unwrap();
    let token = gitea.create_token().await.unwrap();
    contract(Arc::new(RealGitea { gitea, token })).await;
}

impl RealGitea {
    async fn send(&self, method: &str, path: &str, body: Value) -> Value {
        self.gitea.call(method, path, &body).await.unwrap()
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.gitea.call("GET", path, &Value::Null).await.ok()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[async_trait]
impl Host for RealGitea {
    fn endpoint(&self) -> String {
        self.gitea.endpoint()
    }

    fn token(&self) -> String {
        self.token.clone()
    }

    fn many_keys(&self) -> usize {
        // Its pages have 50 entries.
        120
    }

    async fn observe(&self, path: &str) -> Option<Observed> {
        let at = format!("/repos/{path}");
        let repo = self.get(&at).await.filter(|it| it["full_name"] == path)?;
        let mut keys = Vec::new();
        for page in 1.. {
            let found = self.get(&format!("{at}/keys?limit=50&page={page}")).await?;
            let found = found.as_array()?;
            if found.is_empty() {
                break;
            }
            keys.extend(found.iter().map(|it| {
                let key = text(&it["key"]);
                let words: Vec<&str> = key.split(' ').take(2).collect();
                (
                    text(&it["title"]),
                    words.join(" "),
                    it["read_only"] == false,
                )
            }));
        }
        keys.sort();
        let branch = text(&repo["default_branch"]);
        let mut files = std::collections::BTreeMap::new();
        let mut commits = 0;
        if repo["empty"] == false {
            let tree = format!("{at}/git/trees/{branch}?recursive=true");
            for entry in self.get(&tree).await?["tree"].as_array()? {
                if entry["type"] != "blob" {
                    continue;
                }
                let blob = format!("{at}/git/blobs/{}", text(&entry["sha"]));
                let content = text(&self.get(&blob).await?["content"]);
                let content = STANDARD.decode(content).unwrap();
                files.insert(text(&entry["path"]), String::from_utf8(content).unwrap());
            }
            let history = self
                .get(&format!("{at}/commits?sha={branch}&limit=50"))
                .await?;
            commits = history.as_array()?.len();
        }
        Some(Observed {
            description: text(&repo["description"]),
            archived: repo["archived"] == true,
            keys,
            files,
            commits,
        })
    }

    async fn add_repo(&self, path: &str, branch: &str, files: &[(&str, &str)]) {
        let (group, name) = path.split_once('/').unwrap();
        self.send("POST", "/orgs", json!({ "username": group }))
            .await;
        let body = json!({ "name": name, "default_branch": branch });
        self.send("POST", &format!("/orgs/{group}/repos"), body)
            .await;
        let files = files.iter().map(|(path, content)| {
            json!({ "operation": "create", "path": path, "content": STANDARD.encode(content) })
        });
        let files: Vec<_> = files.collect();
        let body = json!({ "branch": branch, "message": "by hand", "files": files });
        self.send("POST", &format!("/repos/{path}/contents"), body)
            .await;
    }

    async fn add_key(&self, path: &str, title: &str, key: &str) {
        let body = json!({ "title": title, "key": key, "read_only": true });
        self.send("POST", &format!("/repos/{path}/keys"), body)
            .await;
    }

    async fn describe(&self, path: &str, description: &str) {
        let body = json!({ "description": description });
        self.send("PATCH", &format!("/repos/{path}"), body).await;
    }

    async fn archive(&self, path: &str) {
        let body = json!({ "archived": true });
        self.send("PATCH", &format!("/repos/{path}"), body).await;
    }

    fn shows_secrets(&self) -> bool {
        false
    }

    async fn set_variable(&self, path: &str, name: &str, value: &str) {
        let path = format!("/repos/{path}/actions/variables/{name}");
        self.send("POST", &path, json!({ "value": value })).await;
    }

    async fn variables(&self, path: &str) -> Vec<(String, Option<String>, bool)> {
        let mut all = Vec::new();
        for (place, masked) in [("variables", false), ("secrets", true)] {
            let path = format!("/repos/{path}/actions/{place}?limit=50");
            let found = self.get(&path).await.unwrap();
            let found = found.as_array().unwrap().iter();
            let value = |it: &Value| it["data"].as_str().map(str::to_owned);
            all.extend(found.map(|it| (text(&it["name"]), value(it), masked)));
        }
        all.sort();
        all
    }

    async fn rename(&self, path: &str, name: &str) {
        let body = json!({ "name": name });
        self.send("PATCH", &format!("/repos/{path}"), body).await;
    }
}
