//! Fakes of three providers on a port of loopback: one model of repositories, and an API of each
//! provider with the fields and statuses of its public description.

mod gitea;
mod github;
mod gitlab;
mod model;
mod tokens;
mod variables;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::{
    description::{Description, Differences, Exchange},
    host::{Host, Observed},
};
use model::{Forge, Repo, Variable};

/// Token that the fakes accept.
const TOKEN: &str = "only-for-tests-0123";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FakeKind {
    Gitea,
    GitLab,
    GitHub,
}

impl FakeKind {
    pub(crate) const ALL: [FakeKind; 3] = [FakeKind::Gitea, FakeKind::GitLab, FakeKind::GitHub];
}

/// A fault of the server, in the form of each provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 401 for the token.
    Expired,
    /// 429, or 403 of GitHub, with a wait of 7 seconds.
    Throttled,
    /// 500
    Broken,
    /// The key is used by another repository.
    KeyInUse,
    /// A repository that the token may not see has the name.
    Conflict,
    /// As [`Fault::Conflict`], with 409 of all providers.
    Conflict409,
    /// 429 of all providers, with a wait of 9 seconds.
    TooManyRequests,
    /// 410 instead of 404.
    Gone,
    /// A website without any API.
    NoApi,
    /// Answers with a field that no API has.
    UnknownField,
}

/// A request to an API.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    /// Segments below the API's address.
    pub(crate) path: Vec<String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Value,
    /// Address of the API.
    pub(crate) base: String,
}

impl Asked<'_> {
    /// Bounds of a page of this size.
    pub(crate) fn page<'v, T>(&self, size: &str, limit: usize, all: &'v [T]) -> (&'v [T], bool) {
        let number = |name: &str| self.query.get(name).and_then(|it| it.parse::<usize>().ok());
        let size = number(size).unwrap_or(20).min(limit);
        let start = (number("page").unwrap_or(1) - 1) * size;
        let end = (start + size).min(all.len());
        (all.get(start..end).unwrap_or_default(), end < all.len())
    }
}

/// Status, headers, and body.
pub(crate) struct Told(
    pub(crate) u16,
    pub(crate) Vec<(&'static str, String)>,
    pub(crate) Value,
);

pub(crate) fn told(status: u16, body: Value) -> Told {
    Told(status, Vec::new(), body)
}

pub(crate) struct Fake {
    kind: FakeKind,
    address: SocketAddr,
    forge: Mutex<Forge>,
    fault: Mutex<Option<Fault>>,
    requests: AtomicUsize,
    description: Description,
    differences: Differences,
}

impl Fake {
    pub(crate) async fn start(kind: FakeKind) -> Arc<Fake> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let fake = Arc::new(Fake {
            kind,
            address: listener.local_addr().unwrap(),
            forge: Mutex::default(),
            fault: Mutex::default(),
            requests: AtomicUsize::new(0),
            description: Description::of(kind),
            differences: Differences::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap() = fault;
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn forge(&self) -> MutexGuard<'_, Forge> {
        self.forge.lock().unwrap()
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut Repo)) {
        change(self.forge().repos.get_mut(path).unwrap());
    }

    pub(crate) fn remove_key(&self, path: &str, title: &str) {
        self.change(path, |it| it.keys.retain(|key| key.title != title));
    }

    fn prefix(&self) -> &'static str {
        match self.kind {
            FakeKind::Gitea => "/api/v1/",
            FakeKind::GitLab => "/api/v4/",
            FakeKind::GitHub => "/api/v3/",
        }
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let (name, value) = match self.kind {
            FakeKind::Gitea => ("authorization", format!("token {TOKEN}")),
            FakeKind::GitLab => ("private-token", TOKEN.to_owned()),
            FakeKind::GitHub => ("authorization", format!("Bearer {TOKEN}")),
        };
        headers.get(name).is_some_and(|it| *it == *value)
    }

    fn tell(&self, asked: &Asked<'_>, authorized: bool) -> Told {
        let fault = *self.fault.lock().unwrap();
        if fault == Some(Fault::TooManyRequests) && authorized {
            return Told(429, vec![("retry-after", "9".to_owned())], Value::Null);
        }
        let forge = &mut self.forge();
        forge.fault = match fault {
            Some(Fault::Conflict409) => Some(Fault::Conflict),
            fault => fault,
        };
        let mut answer = match self.kind {
            FakeKind::Gitea => gitea::tell(forge, asked, authorized),
            FakeKind::GitLab => gitlab::tell(forge, asked, authorized),
            FakeKind::GitHub => github::tell(forge, asked, authorized),
        };
        answer.0 = match (fault, answer.0) {
            (Some(Fault::Gone), 404) => 410,
            (Some(Fault::Conflict409), 400 | 422) => 409,
            (_, status) => status,
        };
        if let (Some(Fault::UnknownField), Value::Object(fields)) = (fault, &mut answer.2) {
            fields.insert("no_such_field".to_owned(), Value::Null);
        }
        answer
    }

    /// Notes an exchange that is not as the API is described.
    fn check(&self, asked: &Asked<'_>, told: &Told) {
        let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
        let exchange = Exchange {
            method: asked.method,
            path: &path,
            query: asked.query.keys().map(String::as_str).collect(),
            request: &asked.body,
            status: told.0,
            answer: &told.2,
        };
        if let Err(difference) = self.description.check(&exchange) {
            self.differences.lock().unwrap().push(difference);
        }
    }
}

async fn answer(
    State(fake): State<Arc<Fake>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    fake.requests.fetch_add(1, Ordering::SeqCst);
    let missing = || StatusCode::NOT_FOUND.into_response();
    let no_api = *fake.fault.lock().unwrap() == Some(Fault::NoApi);
    let Some(path) = uri.path().strip_prefix(fake.prefix()).filter(|_| !no_api) else {
        return missing();
    };
    assert!(headers.contains_key("user-agent"), "GitHub requires it");
    let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let asked = Asked {
        method: method.as_str(),
        path: path.split('/').map(|it| it.replace("%2F", "/")).collect(),
        query: query.into_owned().collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        base: format!("http://{}{}", fake.address, fake.prefix()),
    };
    let told = fake.tell(&asked, fake.is_authorized(&headers));
    fake.check(&asked, &told);
    let Told(status, fields, body) = told;
    let mut response = match &body {
        Value::Null => Response::default(),
        body => body.to_string().into_response(),
    };
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

#[async_trait]
impl Host for Fake {
    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn token(&self) -> String {
        TOKEN.to_owned()
    }

    fn many_keys(&self) -> usize {
        260
    }

    fn differences(&self) -> Differences {
        Arc::clone(&self.differences)
    }

    async fn observe(&self, path: &str) -> Option<Observed> {
        let forge = self.forge();
        let repo = forge.repos.get(path)?;
        let mut keys: Vec<_> = repo
            .keys
            .iter()
            .map(|key| (key.title.clone(), key.key.clone(), key.write_access))
            .collect();
        keys.sort();
        Some(Observed {
            description: repo.description.clone(),
            archived: repo.archived,
            keys,
            files: repo.files().clone(),
            commits: forge.history(repo).len(),
        })
    }

    async fn add_repo(&self, path: &str, branch: &str, files: &[(&str, &str)]) {
        let (group, _) = path.rsplit_once('/').unwrap();
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let mut forge = self.forge();
        forge.groups.insert(group.to_owned());
        forge.add(path, "");
        branch.clone_into(&mut forge.repos.get_mut(path).unwrap().branch);
        forge.commit(path, "by hand", files.collect());
    }

    async fn add_key(&self, path: &str, title: &str, key: &str) {
        self.forge().add_key(path, title, key, false).unwrap();
    }

    async fn describe(&self, path: &str, description: &str) {
        self.change(path, |it| description.clone_into(&mut it.description));
    }

    async fn archive(&self, path: &str) {
        self.change(path, |it| it.archived = true);
    }

    fn shows_secrets(&self) -> bool {
        true
    }

    async fn set_variable(&self, path: &str, name: &str, value: &str) {
        self.change(path, |it| {
            it.variables.push(Variable {
                name: name.to_owned(),
                value: value.to_owned(),
                ..Variable::default()
            });
        });
    }

    async fn variables(&self, path: &str) -> Vec<(String, Option<String>, bool)> {
        let forge = self.forge();
        let found = forge.repos[path].variables.iter();
        let mut all: Vec<_> = found
            .map(|it| (it.name.clone(), Some(it.value.clone()), it.masked))
            .collect();
        all.sort();
        all
    }

    async fn rename(&self, path: &str, name: &str) {
        self.forge().rename(path, name);
    }
}
