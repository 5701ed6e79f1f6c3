//! An HTTPS server: token issuer with discovery, and reviewing cluster.

use std::{
    path::Path,
    sync::{Arc, Mutex, OnceLock},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_testkit::server::TestServer;
use hyper_util::service::TowerToHyperService;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime, macros::datetime};
use tokio::sync::{Semaphore, watch};

use crate::Issuers;

pub(super) const NOW: OffsetDateTime = datetime!(2026-11-22 12:00 UTC);

pub(super) struct Idp {
    shared: Arc<Shared>,
    dir: TempDir,
    /// It stops when this is dropped.
    _server: TestServer,
}

struct Shared {
    url: OnceLock<String>,
    state: Mutex<Answers>,
    /// Guesses pending now, and their maximum so far.
    guesses: watch::Sender<(usize, usize)>,
    /// Number of requests received.
    times: watch::Sender<usize>,
    /// Each permit answers one guess.
    answers: Semaphore,
}

struct Answers {
    key: EncodingKey,
    /// Incremented with each new key.
    number: u32,
    down: bool,
    hangs: bool,
    redirect: bool,
    says_it_is: Option<String>,
    requests: Vec<String>,
}

fn new_key() -> EncodingKey {
    let pair = rcgen::KeyPair::generate().unwrap();
    EncodingKey::from_ec_der(&pair.serialize_der())
}

/// Claims of a valid token; `more` overrides them.
pub(super) fn claims(idp: &Idp, more: Value) -> Value {
    let mut claims = json!({
        "iss": idp.shared.url(),
        "sub": "jane",
        "aud": ["fairlead", "others"],
        "exp": (NOW + Duration::hours(1)).unix_timestamp(),
    });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

impl Idp {
    pub(super) async fn start() -> Self {
        let shared = Arc::new(Shared {
            url: OnceLock::new(),
            state: Mutex::new(Answers {
                key: new_key(),
                number: 1,
                down: false,
                hangs: false,
                redirect: false,
                says_it_is: None,
                requests: Vec::new(),
            }),
            guesses: watch::Sender::new((0, 0)),
            times: watch::Sender::default(),
            answers: Semaphore::new(0),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(document))
            .route(
                "/keys",
                get(async |State(shared): State<Arc<Shared>>| Json(shared.keys())),
            )
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(review))
            .layer(from_fn_with_state(Arc::clone(&shared), watched))
            .with_state(Arc::clone(&shared));
        let server = TestServer::https(TowerToHyperService::new(router));
        shared.url.set(server.url()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("front.pem"), server.ca_pem()).unwrap();
        std::fs::write(dir.path().join("token"), "reviewers-own\n").unwrap();
        Idp {
            shared,
            dir,
            _server: server,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.shared.state.lock().unwrap()
    }

    pub(super) fn url(&self) -> &str {
        self.shared.url()
    }

    pub(super) fn issuers(&self, more: &str) -> Issuers {
        let ca = self.dir.path().join("front.pem");
        let text = format!(
            r#"
            [issuer.corp]
            url = "{}"
            audience = ["fairlead"]
            ca_file = "{}"
            {more}
            roles = [
                {{ claim = "groups", value = "root", role = "admin" }},
                {{ claim = "groups", value = "ops", role = "operator", tenant = "t-acme" }},
                {{ claim = "realm_access.roles", value = "fairlead-viewer", role = "viewer" }},
                {{ claim = "sub", value = "system:serviceaccount:lieutenant:*", role = "cluster", cluster = "*" }},
            ]
            "#,
            self.shared.url(),
            ca.display(),
        );
        Issuers::read(Path::new("issuers.toml"), &text).unwrap()
    }

    pub(super) fn issuers_with_keys_file(&self) -> Issuers {
        let file = self.dir.path().join("keys.json");
        std::fs::write(&file, self.shared.keys().to_string()).unwrap();
        self.issuers(&format!("keys_file = \"{}\"", file.display()))
    }

    pub(super) fn reviewing(&self) -> Issuers {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let text = format!(
            r#"
            [review.syn]
            url = "{}"
            audience = ["fairlead"]
            ca_file = "{}"
            token_file = "{}"
            roles = [{{ claim = "username", value = "system:serviceaccount:lieutenant:api", role = "admin" }}]
            "#,
            self.shared.url(),
            at("front.pem"),
            at("token"),
        );
        Issuers::read(Path::new("issuers.toml"), &text).unwrap()
    }

    pub(super) fn sign(&self, claims: &Value) -> SecretString {
        let state = self.state();
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(state.number.to_string());
        encode(&header, claims, &state.key).unwrap().into()
    }

    /// Signed with an unknown key under the issuer's key id.
    pub(super) fn sign_with_unknown_key(&self, claims: &Value) -> SecretString {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.state().number.to_string());
        encode(&header, claims, &new_key()).unwrap().into()
    }

    /// A forgery with the issuer's public key as shared secret.
    pub(super) fn sign_with_public_key_as_secret(&self, claims: &Value) -> SecretString {
        let public = self.shared.keys()["keys"][0]["x"]
            .as_str()
            .unwrap()
            .to_owned();
        let key = EncodingKey::from_secret(&URL_SAFE_NO_PAD.decode(public).unwrap());
        encode(&Header::new(Algorithm::HS256), claims, &key)
            .unwrap()
            .into()
    }

    pub(super) fn unsigned(claims: &Value) -> SecretString {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!(
            "{}.{}.",
            part(&json!({ "alg": "none", "typ": "JWT" })),
            part(claims)
        )
        .into()
    }

    pub(super) fn rotate(&self) {
        let mut state = self.state();
        state.key = new_key();
        state.number += 1;
    }

    pub(super) fn down(&self, down: bool) {
        self.state().down = down;
    }

    /// From now on requests are accepted and never answered.
    pub(super) fn hang(&self) {
        self.state().hangs = true;
    }

    pub(super) fn redirect(&self) {
        self.state().redirect = true;
    }

    pub(super) fn claim_to_be(&self, url: &str) {
        self.state().says_it_is = Some(url.to_owned());
    }

    pub(super) fn answer_guesses(&self) {
        self.shared.answers.add_permits(10_000);
    }

    /// Waits until this many guesses are pending at once.
    pub(super) async fn wait_for_guesses(&self, many: usize) {
        let mut guesses = self.shared.guesses.subscribe();
        guesses.wait_for(|(now, _)| *now >= many).await.unwrap();
    }

    /// Maximum number of guesses pending at once.
    pub(super) fn max_guesses(&self) -> usize {
        self.shared.guesses.borrow().1
    }

    /// Waits until this many requests were received.
    pub(super) async fn wait_for_requests(&self, times: usize) {
        let mut requests = self.shared.times.subscribe();
        requests
            .wait_for(|requests| *requests >= times)
            .await
            .unwrap();
    }

    /// Paths of all requests, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }
}

impl Shared {
    /// URL of the issuer.
    fn url(&self) -> &str {
        self.url.get().unwrap()
    }

    fn guess(&self, more: isize) {
        self.guesses.send_modify(|(now, most)| {
            *now = now.saturating_add_signed(more);
            *most = (*most).max(*now);
        });
    }

    fn keys(&self) -> Value {
        let state = self.state.lock().unwrap();
        let mut jwk = Jwk::from_encoding_key(&state.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(state.number.to_string());
        json!({ "keys": [jwk] })
    }
}

async fn watched(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (down, hangs, redirect) = {
        let mut state = shared.state.lock().unwrap();
        state.requests.push(request.uri().path().to_owned());
        (state.down, state.hangs, state.redirect)
    };
    shared.times.send_modify(|times| *times += 1);
    if hangs {
        std::future::pending::<()>().await;
    }
    if down {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    if redirect {
        let to = Redirect::temporary("https://127.0.0.1:1/elsewhere").into_response();
        return (StatusCode::FOUND, to.headers().clone()).into_response();
    }
    next.run(request).await
}

async fn document(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let issuer = shared.state.lock().unwrap().says_it_is.clone();
    let issuer = issuer.unwrap_or_else(|| shared.url().to_owned());
    Json(json!({ "issuer": issuer, "jwks_uri": format!("{}/keys", shared.url()) }))
}

async fn review(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(review): Json<Value>,
) -> Response {
    if headers[header::AUTHORIZATION] != "Bearer reviewers-own" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let user = json!({ "username": "system:serviceaccount:lieutenant:api", "groups": ["system:serviceaccounts"] });
    let token = review["spec"]["token"].as_str().unwrap();
    if token.starts_with("guess") {
        shared.guess(1);
        shared.answers.acquire().await.unwrap().forget();
        shared.guess(-1);
    }
    let status = match token {
        "opaque" => {
            json!({ "authenticated": true, "user": user, "audiences": review["spec"]["audiences"] })
        }
        "for-others" => json!({ "authenticated": true, "user": user, "audiences": ["others"] }),
        _ => json!({ "authenticated": false, "error": "invalid bearer token" }),
    };
    Json(json!({ "status": status })).into_response()
}
