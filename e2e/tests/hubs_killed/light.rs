//! Small API servers, one for each light cluster. Each answer names its cluster.
//!
//! A watch has one event each second, numbered from the start of the server, so that a resumed watch can be checked.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use fairlead_testkit::server::TestServer;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

/// Path of the ConfigMaps that the load uses.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A light cluster.
pub(crate) struct LightApi {
    pub(crate) server: TestServer,
    state: Arc<LightState>,
}

struct LightState {
    name: String,
    began: Instant,
    /// Number of writes by the name of their object.
    writes: Mutex<BTreeMap<String, u32>>,
}

impl LightApi {
    pub(crate) fn start(name: &str) -> Self {
        let state = Arc::new(LightState {
            name: name.to_owned(),
            began: Instant::now(),
            writes: Mutex::default(),
        });
        let served = Arc::clone(&state);
        let service = service_fn(move |request| {
            let state = Arc::clone(&served);
            async move { Ok::<_, Infallible>(answer(&state, request).await) }
        });
        Self {
            server: TestServer::https(service),
            state,
        }
    }

    /// Names of objects that were written more than once.
    pub(crate) fn repeated_writes(&self) -> Vec<String> {
        let writes = self.state.writes.lock();
        let writes = writes.unwrap_or_else(PoisonError::into_inner);
        let repeated = writes.iter().filter(|(_, count)| **count > 1);
        repeated.map(|(name, _)| name.clone()).collect()
    }
}

async fn answer(state: &Arc<LightState>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let identity = format!("{CONFIG_MAPS}/identity");
    match (request.method(), path.as_str()) {
        (_, "/readyz" | "/livez" | "/healthz") => text("ok"),
        (_, "/version") => json_of(
            200,
            &json!({ "major": "1", "minor": "37", "gitVersion": "v1.37.1" }),
        ),
        (_, "/api/v1/namespaces/kube-system") => {
            let uid = format!("uid-of-{}", state.name);
            json_of(
                200,
                &json!({ "metadata": { "name": "kube-system", "uid": uid } }),
            )
        }
        (&Method::GET, path) if path == identity => json_of(200, &config_map(state, "identity", 1)),
        (&Method::POST, CONFIG_MAPS) => write(state, request).await,
        (&Method::GET, CONFIG_MAPS) if query.contains("watch=true") => {
            let from = query
                .split('&')
                .find_map(|it| it.strip_prefix("resourceVersion="));
            events(state, from.and_then(|it| it.parse().ok()))
        }
        _ => json_of(
            404,
            &json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404 }),
        ),
    }
}

async fn write(state: &LightState, request: Request<Incoming>) -> Answer {
    let body = request.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let body: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let writes = state.writes.lock();
    let mut writes = writes.unwrap_or_else(PoisonError::into_inner);
    *writes.entry(name.to_owned()).or_default() += 1;
    json_of(201, &config_map(state, name, 1))
}

/// Events after the version `from`, or from now on.
fn events(state: &Arc<LightState>, from: Option<u32>) -> Answer {
    let passed = state.began.elapsed().as_secs();
    let first = from.unwrap_or(u32::try_from(passed).unwrap_or(u32::MAX)) + 1;
    let events = stream::unfold((Arc::clone(state), first), |(state, version)| async move {
        sleep_until(state.began + EVENT_INTERVAL * version).await;
        let event = json!({ "type": "MODIFIED", "object": config_map(&state, "tick", version) });
        let frame = Frame::data(Bytes::from(format!("{event}\n")));
        Some((Ok::<_, Infallible>(frame), (state, version + 1)))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", kind);
    response
}

fn config_map(state: &LightState, name: &str, version: u32) -> Value {
    json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": { "name": name, "namespace": "default", "resourceVersion": version.to_string() },
        "data": { "cluster": state.name },
    })
}

fn text(text: &'static str) -> Answer {
    Response::new(Full::from(text).boxed_unsync())
}

fn json_of(status: u16, value: &Value) -> Answer {
    let mut response = Response::new(Full::from(value.to_string()).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", kind);
    response
}
