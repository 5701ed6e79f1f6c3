//! A scripted OpenID Connect issuer that records its requests. Its tokens are not signed: clients compare claims only.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use serde_json::{Value, json};

use crate::server::TestServer;

/// A form that the issuer received, with the path of the request.
pub type ReceivedForm = (String, HashMap<String, String>);

#[derive(Default)]
struct IssuerScript {
    url: OnceLock<String>,
    /// Fields that replace those of the discovery document.
    discovery: Mutex<Value>,
    answers: Mutex<VecDeque<(u16, Value)>>,
    received: Mutex<Vec<ReceivedForm>>,
}

/// A fake issuer with TLS on loopback. It stops when this is dropped.
pub struct FakeIssuer {
    script: Arc<IssuerScript>,
    server: TestServer,
}

impl FakeIssuer {
    /// Starts an issuer with all endpoints.
    #[must_use]
    pub fn start() -> Self {
        let script = Arc::new(IssuerScript::default());
        let shared = Arc::clone(&script);
        let server = TestServer::https(service_fn(move |request| {
            answer(Arc::clone(&shared), request)
        }));
        let _ = script.url.set(server.url());
        FakeIssuer { script, server }
    }

    /// URL of the issuer.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// CA of its certificate, PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.server.ca_pem()
    }

    /// Adds the answer to one further form.
    pub fn answer(&self, status: u16, body: Value) {
        locked(&self.script.answers).push_back((status, body));
    }

    /// Replaces fields of the discovery document; null removes one.
    pub fn change_discovery(&self, fields: Value) {
        *locked(&self.script.discovery) = fields;
    }

    /// Received forms, in order.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedForm> {
        locked(&self.script.received).clone()
    }

    /// An unsigned ID token with these claims.
    #[must_use]
    pub fn id_token(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({ "alg": "none" })), part(claims))
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(
    script: Arc<IssuerScript>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await;
    let body = body.map(|it| it.to_bytes()).unwrap_or_default();
    let (status, body) = match path.as_str() {
        "/.well-known/openid-configuration" => (200, discovery(&script)),
        _ => {
            let form = form_urlencoded::parse(&body).into_owned().collect();
            locked(&script.received).push((path, form));
            let next = locked(&script.answers).pop_front();
            next.unwrap_or((500, json!("no answer is scripted")))
        }
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    Ok(response)
}

fn discovery(script: &IssuerScript) -> Value {
    let url = script.url.get().cloned().unwrap_or_default();
    let mut document = json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "device_authorization_endpoint": format!("{url}/device"),
        "revocation_endpoint": format!("{url}/revoke"),
    });
    if let (Some(all), Value::Object(changes)) =
        (document.as_object_mut(), &*locked(&script.discovery))
    {
        for (name, value) in changes {
            match value {
                Value::Null => drop(all.remove(name)),
                value => drop(all.insert(name.clone(), value.clone())),
            }
        }
    }
    document
}
