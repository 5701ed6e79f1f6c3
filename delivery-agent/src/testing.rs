//! Fake API server on loopback: objects in memory, UIDs, preconditions, server-side apply without merging, bound tokens.

#![allow(dead_code, reason = "tests of single modules use parts")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::kube::{Discovery, KubeClient, RequestRate};

/// Group, version, plural, kind, namespaced.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "namespaces", "Namespace", false),
    ("", "v1", "configmaps", "ConfigMap", true),
    ("", "v1", "secrets", "Secret", true),
    ("", "v1", "serviceaccounts", "ServiceAccount", true),
    ("", "v1", "services", "Service", true),
    (
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        true,
    ),
    ("apps", "v1", "deployments", "Deployment", true),
    ("coordination.k8s.io", "v1", "leases", "Lease", true),
    (
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
    ),
];

/// Answer in place of the real one.
pub(crate) type Fault = Box<dyn FnMut(&Method, &str, &Value) -> Option<(u16, Value)> + Send>;

#[derive(Default)]
pub(crate) struct World {
    /// Objects by path.
    pub(crate) objects: BTreeMap<String, Value>,
    /// Method and path with query of each request.
    pub(crate) requests: Vec<(Method, String)>,
    pub(crate) fault: Option<Fault>,
    /// Deleted objects with this path stay, as with a finalizer.
    pub(crate) finalized: Vec<String>,
    /// Kinds beside the common ones.
    pub(crate) kinds: Vec<(String, String, String, String, bool)>,
    version: u64,
}

#[derive(Clone)]
pub(crate) struct FakeApi {
    pub(crate) world: Arc<Mutex<World>>,
    upstream: Arc<Upstream>,
}

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(world.clone());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "agent"}}],
        });
        std::fs::write(&path, text.to_string()).unwrap();
        tokio::spawn(async move {
            // The kubeconfig stays as long as the server.
            let _folder = folder;
            axum::serve(listener, router).await
        });
        let target = ApiServerConfig::Kubeconfig {
            path,
            context: None,
        };
        let upstream = Arc::new(Upstream::new(ApiCredentials::new(&target)));
        Self { world, upstream }
    }

    pub(crate) fn client(&self) -> KubeClient {
        KubeClient::new(self.upstream.clone()).with_rate(RequestRate::new(100_000, 100_000))
    }

    pub(crate) fn upstream(&self) -> Arc<Upstream> {
        self.upstream.clone()
    }

    pub(crate) fn discovery(&self) -> Discovery {
        Discovery::new(self.client())
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.world.lock().unwrap().objects.get(path).cloned()
    }

    /// Stores an object as if somebody else had made it.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let mut world = self.world.lock().unwrap();
        let object = world.born(object);
        world.objects.insert(path.to_owned(), object);
    }

    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut world = self.world.lock().unwrap();
        change(world.objects.get_mut(path).unwrap());
    }

    pub(crate) fn delete(&self, path: &str) {
        self.world.lock().unwrap().objects.remove(path);
    }

    pub(crate) fn paths(&self, prefix: &str) -> Vec<String> {
        let world = self.world.lock().unwrap();
        let paths = world.objects.keys();
        paths.filter(|it| it.starts_with(prefix)).cloned().collect()
    }

    pub(crate) fn set_fault(
        &self,
        fault: impl FnMut(&Method, &str, &Value) -> Option<(u16, Value)> + Send + 'static,
    ) {
        self.world.lock().unwrap().fault = Some(Box::new(fault));
    }

    pub(crate) fn clear_fault(&self) {
        self.world.lock().unwrap().fault = None;
    }

    /// Requests since the last call, as `METHOD path`, without queries.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        let requests = std::mem::take(&mut self.world.lock().unwrap().requests);
        let text = |(method, path): &(Method, String)| {
            let path = path.split('?').next().unwrap();
            format!("{method} {path}")
        };
        requests.iter().map(text).collect()
    }
}

impl World {
    fn born(&mut self, mut object: Value) -> Value {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("uid-{}", self.version));
        metadata["resourceVersion"] = json!(self.version.to_string());
        metadata["creationTimestamp"] = json!("2026-11-24T12:00:00Z");
        object
    }

    fn kinds(&self) -> Vec<(String, String, String, String, bool)> {
        let own = KINDS
            .iter()
            .map(|(group, version, plural, kind, namespaced)| {
                let text = |it: &str| it.to_owned();
                (
                    text(group),
                    text(version),
                    text(plural),
                    text(kind),
                    *namespaced,
                )
            });
        own.chain(self.kinds.iter().cloned()).collect()
    }

    fn discovery(&self, core: bool) -> Value {
        let mut groups = BTreeMap::<String, BTreeMap<String, Vec<Value>>>::new();
        for (group, version, plural, kind, namespaced) in self.kinds() {
            if group.is_empty() == core {
                let scope = if namespaced { "Namespaced" } else { "Cluster" };
                let kind = json!({"group": "", "version": "", "kind": kind});
                let resource = json!({"resource": plural, "responseKind": kind, "scope": scope, "verbs": ["list", "watch"]});
                let versions = groups.entry(group).or_default();
                versions.entry(version).or_default().push(resource);
            }
        }
        let items: Vec<_> = groups
            .into_iter()
            .map(|(name, versions)| {
                let version =
                    |(version, resources)| json!({"version": version, "resources": resources});
                let versions: Vec<_> = versions.into_iter().map(version).collect();
                json!({"metadata": {"name": name}, "versions": versions})
            })
            .collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
    }

    fn is_accepted(&self, headers: &HeaderMap) -> bool {
        let token = headers["authorization"].to_str().unwrap();
        let Some(uid) = token.strip_prefix("Bearer bound:") else {
            return token == "Bearer agent" || token == "Bearer observer";
        };
        let mut objects = self.objects.values();
        objects.any(|it| it["metadata"]["uid"] == json!(uid))
    }

    fn answer(
        &mut self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Value,
    ) -> (u16, Value) {
        let path = uri.path().to_owned();
        self.requests.push((method.clone(), uri.to_string()));
        if !self.is_accepted(headers) {
            return status(401, "Unauthorized", "Unauthorized");
        }
        if let Some(fault) = &mut self.fault
            && let Some(answer) = fault(method, &path, body)
        {
            return answer;
        }
        match (method.as_str(), path.as_str()) {
            ("GET", "/api") => return (200, self.discovery(true)),
            ("GET", "/apis") => return (200, self.discovery(false)),
            _ => {}
        }
        if let Some(account) = path.strip_suffix("/token") {
            return self.token(account, body);
        }
        let query = uri.query().unwrap_or_default();
        if query.contains("watch=true") {
            return status(403, "Forbidden", "no watches here");
        }
        match method.as_str() {
            "GET" => self.read(&path, query),
            "POST" => {
                let name = body["metadata"]["name"].as_str().unwrap();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return status(409, "AlreadyExists", "it already exists");
                }
                if let Some(missing) = self.missing_namespace(&path) {
                    return missing;
                }
                let object = self.born(body.clone());
                self.objects.insert(path, object.clone());
                (201, object)
            }
            "PUT" | "PATCH" => self.write(method, &path, query, body),
            "DELETE" => self.delete(&path, body),
            _ => status(405, "MethodNotAllowed", ""),
        }
    }

    fn token(&mut self, account: &str, body: &Value) -> (u16, Value) {
        let bound = &body["spec"]["boundObjectRef"];
        if !self.objects.contains_key(account) {
            return status(404, "NotFound", "no such service account");
        }
        let namespace = account.rsplit_once("/serviceaccounts/").unwrap().0;
        let Some(name) = bound["name"].as_str() else {
            return (201, json!({"status": {"token": "observer"}}));
        };
        let path = format!("{namespace}/secrets/{name}");
        match self.objects.get(&path) {
            None => status(404, "NotFound", "no such secret"),
            Some(secret) if secret["metadata"]["uid"] != bound["uid"] => {
                status(409, "Conflict", "the UID does not match")
            }
            Some(_) => {
                let token = format!("bound:{}", bound["uid"].as_str().unwrap());
                let answer = json!({"status": {"token": token, "expirationTimestamp": "2026-11-24T13:00:00Z"}});
                (201, answer)
            }
        }
    }

    fn missing_namespace(&self, path: &str) -> Option<(u16, Value)> {
        let (_, rest) = path.split_once("/namespaces/")?;
        let (namespace, rest) = rest.split_once('/')?;
        let exists = self
            .objects
            .contains_key(&format!("/api/v1/namespaces/{namespace}"));
        (!exists && !rest.is_empty()).then(|| {
            let message = format!("namespaces \"{namespace}\" not found");
            let mut answer = status(404, "NotFound", &message);
            answer.1["details"] = json!({"kind": "namespaces", "name": namespace});
            answer
        })
    }

    fn read(&self, path: &str, query: &str) -> (u16, Value) {
        if let Some(object) = self.objects.get(path) {
            return (200, object.clone());
        }
        let plural = path.rsplit('/').next().unwrap();
        if !self.kinds().iter().any(|it| it.2 == plural) {
            return status(404, "NotFound", "not found");
        }
        let selector = query
            .split('&')
            .find_map(|it| it.strip_prefix("labelSelector="));
        let plain = |it: &str| {
            it.replace("%3D", "=")
                .replace("%2F", "/")
                .replace("%2C", ",")
        };
        let selector = selector.map(plain);
        let group = path.strip_suffix(plural).unwrap();
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(path, object)| {
                // Below a namespace, too, for a list of all namespaces.
                let rest = path.strip_prefix(group);
                let rest = rest.map(|it| match it.strip_prefix("namespaces/") {
                    Some(of_namespace) if plural != "namespaces" => {
                        of_namespace.split_once('/').map_or("", |it| it.1)
                    }
                    _ => it,
                });
                let name = rest.and_then(|it| it.strip_prefix(plural)?.strip_prefix('/'));
                name.is_some_and(|it| !it.contains('/'))
                    && selector.as_ref().is_none_or(|it| has_labels(object, it))
            })
            .map(|(_, object)| object.clone())
            .collect();
        let version = self.version.to_string();
        (
            200,
            json!({"metadata": {"resourceVersion": version}, "items": items}),
        )
    }

    fn write(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let apply = query.contains("fieldManager=");
        let current = self.objects.get(path).cloned();
        if current.is_none() && !apply {
            return status(404, "NotFound", "not found");
        }
        if let Some(missing) = self.missing_namespace(path) {
            return missing;
        }
        let stale = |of: &Value| {
            let wanted = &body["metadata"]["resourceVersion"];
            !wanted.is_null() && *wanted != of["metadata"]["resourceVersion"]
        };
        if current.as_ref().is_some_and(stale) {
            return status(409, "Conflict", "the object has been modified");
        }
        let mut object = match (&current, body) {
            (Some(current), Value::Array(patch)) => patched(current, patch),
            (Some(current), _) if method == Method::PATCH && !apply => {
                let mut merged = current.clone();
                merge(&mut merged, body);
                merged
            }
            _ => body.clone(),
        };
        if apply {
            let manager = query
                .split('&')
                .find_map(|it| it.strip_prefix("fieldManager="));
            let manager = manager.unwrap().replace("%2F", "/");
            object["metadata"]["managedFields"] = json!([{
                "manager": manager, "operation": "Apply", "apiVersion": "v1",
                "time": "2026-11-24T12:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:all": {}},
            }]);
            if let Some(status) = current.as_ref().and_then(|it| it.get("status")) {
                object["status"] = status.clone();
            }
        }
        if query.contains("dryRun=All") {
            return (200, object);
        }
        let uid = current.map(|it| it["metadata"]["uid"].clone());
        let mut object = self.born(object);
        if let Some(uid) = uid {
            object["metadata"]["uid"] = uid;
        }
        self.objects.insert(path.to_owned(), object.clone());
        (200, object)
    }

    fn delete(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let Some(object) = self.objects.get_mut(path) else {
            return status(404, "NotFound", "not found");
        };
        let uid = &body["preconditions"]["uid"];
        if !uid.is_null() && *uid != object["metadata"]["uid"] {
            return status(
                409,
                "Conflict",
                "the UID in the precondition does not match",
            );
        }
        if self.finalized.iter().any(|it| it == path) {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-24T12:00:00Z");
            return (200, object.clone());
        }
        (200, self.objects.remove(path).unwrap())
    }
}

/// True if the object has all labels of a selector of equalities and names.
fn has_labels(object: &Value, selector: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.split(',').all(|it| match it.split_once('=') {
        Some((key, value)) => labels[key] == json!(value),
        None => labels.get(it).is_some(),
    })
}

fn patched(current: &Value, patch: &[Value]) -> Value {
    let mut object = current.clone();
    for operation in patch {
        let path = operation["path"].as_str().unwrap();
        if let Some(field) = object.pointer_mut(path) {
            *field = operation["value"].clone();
        }
    }
    object
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code});
    (code, body)
}

async fn answer(
    State(world): State<Arc<Mutex<World>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (code, answer) = world.lock().unwrap().answer(&method, &uri, &headers, &body);
    let code = StatusCode::from_u16(code).unwrap();
    (code, axum::Json(answer)).into_response()
}
