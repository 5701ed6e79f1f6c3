//! Access tokens of GitLab's projects (docs.gitlab.com/api/project_access_tokens).

use serde_json::{Value, json};

use super::{
    Asked, Fake, Told, gitlab,
    model::{AccessToken, Forge},
    told,
};

const LONG_AGO: &str = "2020-01-01T00:00:00.000Z";

fn shown(token: &AccessToken) -> Value {
    json!({
        "id": token.id, "name": token.name, "revoked": false, "active": true,
        "scopes": token.scopes, "access_level": token.level,
        "expires_at": token.expires, "created_at": token.created, "user_id": 7,
    })
}

pub(super) fn answer(forge: &mut Forge, asked: &Asked<'_>, repo: &str, below: &[&str]) -> Told {
    let id = forge.next_id();
    let tokens = &mut forge.repos.get_mut(repo).unwrap().tokens;
    match (asked.method, below) {
        ("GET", []) => {
            let (page, more) = asked.page("per_page", 100, tokens);
            let entries = page.iter().map(shown).collect();
            Told(200, gitlab::next_page(asked, more), entries)
        }
        ("POST", []) => {
            let now = time::OffsetDateTime::from(std::time::SystemTime::now());
            let now = now.format(&time::format_description::well_known::Rfc3339);
            let token = AccessToken {
                id,
                name: asked.body["name"].as_str().unwrap().to_owned(),
                scopes: asked.body["scopes"].clone(),
                level: asked.body["access_level"].as_u64().unwrap(),
                expires: asked.body["expires_at"].as_str().unwrap().to_owned(),
                created: now.unwrap(),
            };
            let mut made = shown(&token);
            made["token"] = json!(format!("glpat-{id}"));
            tokens.push(token);
            told(201, made)
        }
        ("DELETE", [id]) => {
            tokens.retain(|it| it.id.to_string() != *id);
            told(204, Value::Null)
        }
        _ => told(404, json!({ "error": "404 Not Found" })),
    }
}

impl Fake {
    /// Ids of all tokens of a project.
    pub(crate) fn tokens(&self, path: &str) -> Vec<String> {
        let forge = self.forge();
        let tokens = forge.repos[path].tokens.iter();
        tokens.map(|it| it.id.to_string()).collect()
    }

    /// Adds a token that somebody else has made.
    pub(crate) fn add_token(&self, path: &str, name: &str) {
        let mut forge = self.forge();
        let token = AccessToken {
            id: forge.next_id(),
            name: name.to_owned(),
            scopes: json!(["api"]),
            level: 40,
            expires: "2099-01-01".to_owned(),
            created: LONG_AGO.to_owned(),
        };
        forge.repos.get_mut(path).unwrap().tokens.push(token);
    }

    /// Lets all tokens end after this many days.
    pub(crate) fn end_tokens_in(&self, path: &str, days: i64) {
        let now = time::OffsetDateTime::from(std::time::SystemTime::now());
        let end = (now + time::Duration::days(days)).date().to_string();
        self.change(path, |it| {
            for token in &mut it.tokens {
                token.expires.clone_from(&end);
            }
        });
    }

    /// Moves the creation of all tokens into the past.
    pub(crate) fn age_tokens(&self, path: &str) {
        self.change(path, |it| {
            for token in &mut it.tokens {
                LONG_AGO.clone_into(&mut token.created);
            }
        });
    }
}
