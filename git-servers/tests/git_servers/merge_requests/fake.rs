//! A server with merge requests of one repository, with the fields of each provider's public API
//! description that the hub reads.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use fairlead_repositories::CiResult;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    description::{Description, Differences, Exchange, assert_none},
    fakes::FakeKind,
};

/// Token that the fake accepts.
pub(super) const TOKEN: &str = "only-for-tests-0123";
/// The one repository.
pub(super) const PATH: &str = "acme/edge";
/// Largest page of Gitea; the others allow 100.
const GITEA_PAGE: usize = 50;

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) branch: String,
    pub(super) labels: Vec<&'static str>,
    pub(super) ci: CiResult,
    pub(super) has_conflicts: bool,
    pub(super) is_draft: bool,
    pub(super) is_merged: bool,
}

impl Request {
    pub(super) fn ready(number: u64) -> Self {
        Request {
            number,
            branch: format!("renovate/dep-{number}"),
            labels: Vec::new(),
            ci: CiResult::Passed,
            has_conflicts: false,
            is_draft: false,
            is_merged: false,
        }
    }

    fn head(&self) -> String {
        format!("head-{}", self.number)
    }
}

pub(super) struct FakeRequests {
    kind: FakeKind,
    endpoint: String,
    all: Mutex<Vec<Request>>,
    /// Owner in the description of the repository.
    owner: Mutex<&'static str>,
    is_throttled: AtomicBool,
    requests: AtomicUsize,
    description: Description,
    differences: Differences,
}

impl FakeRequests {
    pub(super) async fn start(kind: FakeKind) -> Arc<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let fake = Arc::new(FakeRequests {
            kind,
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            all: Mutex::default(),
            owner: Mutex::new("c-edge"),
            is_throttled: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            description: Description::of(kind),
            differences: Differences::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub(super) fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    pub(super) fn set(&self, all: Vec<Request>) {
        *self.all.lock().unwrap() = all;
    }

    pub(super) fn set_owner(&self, owner: &'static str) {
        *self.owner.lock().unwrap() = owner;
    }

    pub(super) fn set_throttled(&self) {
        self.is_throttled.store(true, Ordering::SeqCst);
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(super) fn merged(&self) -> Vec<u64> {
        let all = self.all.lock().unwrap();
        all.iter()
            .filter(|it| it.is_merged)
            .map(|it| it.number)
            .collect()
    }

    /// Asserts that all exchanges were as the API is described.
    pub(super) fn assert_described(&self) {
        assert_none(&self.differences);
    }

    /// Segments below the repository.
    fn below<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        let prefix = match self.kind {
            FakeKind::Gitea => "/api/v1/repos/acme/edge",
            FakeKind::GitLab => "/api/v4/projects/acme%2Fedge",
            FakeKind::GitHub => "/api/v3/repos/acme/edge",
        };
        let below = path.strip_prefix(prefix)?;
        let segments = below.split('/').filter(|it| !it.is_empty());
        Some(segments.collect())
    }

    fn respond(&self, method: &str, path: &str, query: &str, body: &Value) -> Response {
        let Some(below) = self.below(path) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let requests = match self.kind {
            FakeKind::GitLab => "merge_requests",
            FakeKind::Gitea | FakeKind::GitHub => "pulls",
        };
        let mut all = self.all.lock().unwrap();
        let find = |all: &[Request], number: &str| {
            all.iter().position(|it| it.number.to_string() == number)
        };
        match (method, &below[..]) {
            ("GET", []) => self.repository().to_string().into_response(),
            ("GET", [kind]) if *kind == requests => self.page(&all, query),
            ("GET", [kind, number]) if *kind == requests => match find(&all, number) {
                Some(index) => self.shown(&all[index]).to_string().into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            },
            (verb, [kind, number, "merge"]) if *kind == requests => {
                let (expected, field) = match self.kind {
                    FakeKind::Gitea => ("POST", "head_commit_id"),
                    FakeKind::GitLab | FakeKind::GitHub => ("PUT", "sha"),
                };
                assert_eq!(verb, expected);
                let index = find(&all, number).unwrap();
                let request = &mut all[index];
                if body[field] != request.head() {
                    return StatusCode::CONFLICT.into_response();
                }
                request.is_merged = true;
                "{}".into_response()
            }
            ("GET", ["commits", head, "status"]) => {
                let request = all.iter().find(|it| it.head() == *head).unwrap();
                let state = match request.ci {
                    CiResult::None | CiResult::Pending => "pending",
                    CiResult::Passed => "success",
                    CiResult::Failed => "failure",
                };
                let count = u8::from(request.ci != CiResult::None);
                json!({ "state": state, "total_count": count })
                    .to_string()
                    .into_response()
            }
            ("GET", ["commits", _, "check-runs"]) if self.kind == FakeKind::GitHub => {
                json!({ "total_count": 0, "check_runs": [] })
                    .to_string()
                    .into_response()
            }
            _ => panic!("{method} {path}"),
        }
    }

    /// Notes an exchange that is not as the API is described.
    async fn checked(
        &self,
        method: &Method,
        path: &[&str],
        query: &str,
        request: &Value,
        response: Response,
    ) -> Response {
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let query: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let exchange = Exchange {
            method: method.as_str(),
            path,
            query: query.iter().map(|(name, _)| &**name).collect(),
            request,
            status: head.status.as_u16(),
            answer: &serde_json::from_slice(&body).unwrap_or_default(),
        };
        if let Err(difference) = self.description.check(&exchange) {
            self.differences.lock().unwrap().push(difference);
        }
        Response::from_parts(head, body.into())
    }

    fn repository(&self) -> Value {
        let description = format!("Edge (Fairlead: {})", self.owner.lock().unwrap());
        let (path, is_empty) = match self.kind {
            FakeKind::GitLab => ("path_with_namespace", Some("empty_repo")),
            FakeKind::Gitea => ("full_name", Some("empty")),
            FakeKind::GitHub => ("full_name", None),
        };
        let mut repository = json!({
            "id": 1,
            path: PATH,
            "description": description,
            "archived": false,
            "default_branch": "main",
        });
        if let Some(name) = is_empty {
            repository[name] = json!(false);
        }
        repository
    }

    fn page(&self, all: &[Request], query: &str) -> Response {
        let query: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let value = |name: &str| {
            query
                .iter()
                .find(|(known, _)| known == name)
                .map(|it| &*it.1)
        };
        let (state, size) = match self.kind {
            FakeKind::Gitea => ("open", "limit"),
            FakeKind::GitLab => ("opened", "per_page"),
            FakeKind::GitHub => ("open", "per_page"),
        };
        assert_eq!(value("state"), Some(state));
        let number = |name: &str| value(name).and_then(|it| it.parse::<usize>().ok());
        let limit = if self.kind == FakeKind::Gitea {
            GITEA_PAGE
        } else {
            100
        };
        let size = number(size).unwrap().min(limit);
        let page = number("page").unwrap();
        let open: Vec<_> = all.iter().filter(|it| !it.is_merged).collect();
        let shown = open.iter().skip((page - 1) * size).take(size);
        let listed = |it: &&Request| {
            let mut entry = self.shown(it);
            let fields = entry.as_object_mut().unwrap();
            // Only the answer about a single one has these.
            match self.kind {
                FakeKind::Gitea => None,
                FakeKind::GitLab => fields.remove("head_pipeline"),
                FakeKind::GitHub => fields.remove("mergeable"),
            };
            entry
        };
        let shown: Vec<Value> = shown.map(listed).collect();
        let is_last = page * size >= open.len();
        let next = if is_last {
            String::new()
        } else {
            (page + 1).to_string()
        };
        let fields = [
            ("x-total-count", open.len().to_string()),
            ("x-next-page", next),
        ];
        (fields, Value::from(shown).to_string()).into_response()
    }

    fn shown(&self, it: &Request) -> Value {
        let number = it.number;
        match self.kind {
            FakeKind::GitLab => json!({
                "iid": number,
                "title": it.branch,
                "web_url": format!("https://git.example/{PATH}/-/merge_requests/{number}"),
                "state": if it.is_merged { "merged" } else { "opened" },
                "author": { "username": "ann" },
                "labels": it.labels,
                "source_branch": it.branch,
                "sha": it.head(),
                "draft": it.is_draft,
                "has_conflicts": it.has_conflicts,
                "detailed_merge_status": if it.has_conflicts { "conflict" } else { "mergeable" },
                "head_pipeline": match it.ci {
                    CiResult::None => Value::Null,
                    CiResult::Pending => json!({ "status": "running" }),
                    CiResult::Passed => json!({ "status": "success" }),
                    CiResult::Failed => json!({ "status": "failed" }),
                },
            }),
            FakeKind::Gitea | FakeKind::GitHub => json!({
                "number": number,
                "title": it.branch,
                "html_url": format!("https://git.example/{PATH}/pulls/{number}"),
                "state": if it.is_merged { "closed" } else { "open" },
                "user": { "login": "ann" },
                "labels": it.labels.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
                "head": { "ref": it.branch, "sha": it.head() },
                "draft": it.is_draft,
                "mergeable": !it.has_conflicts,
            }),
        }
    }
}

async fn answer(
    State(fake): State<Arc<FakeRequests>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    fake.requests.fetch_add(1, Ordering::SeqCst);
    if fake.is_throttled.load(Ordering::SeqCst) {
        let wait = [(header::RETRY_AFTER, "7")];
        return (StatusCode::TOO_MANY_REQUESTS, wait, "{}").into_response();
    }
    let has_token = headers
        .values()
        .any(|it| it.to_str().is_ok_and(|it| it.ends_with(TOKEN)));
    let is_api = fake.below(uri.path()).is_some();
    assert!(has_token || !is_api, "{uri} without the token");
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let query = uri.query().unwrap_or_default();
    let response = fake.respond(method.as_str(), uri.path(), query, &body);
    match uri.path().split('/').collect::<Vec<_>>().get(3..) {
        Some(path) if is_api => fake.checked(&method, path, query, &body, response).await,
        _ => response,
    }
}
