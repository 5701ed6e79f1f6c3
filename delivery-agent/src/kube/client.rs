//! Requests for single objects.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use fairlead_api::percent;
use fairlead_apiserver::{BearerToken, Upstream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{error::KubeError, rate::RequestRate};

/// Deadline of a request with its answer. The API server's own bound is 34 s.
const REQUEST_DEADLINE: Duration = Duration::from_secs(40);
/// Requests that follow a refused one of an overloaded API server.
const MAX_THROTTLE_RETRIES: usize = 3;
/// Largest answer with one object, in bytes. etcd accepts 1.5 MiB by default.
const MAX_OBJECT_BYTES: usize = 3 * 1024 * 1024;

pub(super) const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Deletion of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// The object stays until they are gone.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    const fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// There was no such object.
    Absent,
    /// The API server accepted it. The object may stay for a while, because of finalizers.
    Accepted,
}

/// Client of the API server, with the agent's own credential or with the token of a run. Clones share rate and token.
#[derive(Clone)]
pub struct KubeClient {
    upstream: Arc<Upstream>,
    rate: RequestRate,
    token: Option<Arc<RwLock<BearerToken>>>,
    user_agent: HeaderValue,
}

impl KubeClient {
    /// Client with the agent's own credential.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>) -> Self {
        Self {
            upstream,
            rate: RequestRate::default(),
            token: None,
            user_agent: HeaderValue::from_static("fairlead-delivery"),
        }
    }

    /// The same client with another rate limit.
    #[must_use]
    pub fn with_rate(mut self, rate: RequestRate) -> Self {
        self.rate = rate;
        self
    }

    /// The same client with another token. `user_agent` names the user of the token in the API server's audit log.
    #[must_use]
    pub fn with_token(&self, token: BearerToken, user_agent: &str) -> Self {
        let user_agent = HeaderValue::from_str(user_agent);
        Self {
            token: Some(Arc::new(RwLock::new(token))),
            user_agent: user_agent.unwrap_or_else(|_| self.user_agent.clone()),
            ..self.clone()
        }
    }

    /// Replaces the token of all clones. A client with the agent's own credential keeps it.
    pub fn renew_token(&self, token: BearerToken) {
        if let Some(current) = &self.token {
            *current.write().unwrap_or_else(PoisonError::into_inner) = token;
        }
    }

    /// Object at a path; `None` if it, or its kind, does not exist.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn get(&self, path: &str) -> Result<Option<Value>, KubeError> {
        found(self.send(Method::GET, path, JSON, None).await)
    }

    /// Metadata of the object at a path, without its content; `None` if it, or its kind, does not exist.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn get_metadata(&self, path: &str) -> Result<Option<Value>, KubeError> {
        found(self.send(Method::GET, path, METADATA, None).await)
    }

    /// Applies an object on the server side, and returns it. `force` takes fields over from other managers.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn apply(
        &self,
        path: &str,
        manager: &str,
        force: bool,
        dry_run: bool,
        object: &Value,
    ) -> Result<Value, KubeError> {
        let manager = percent::encode(manager);
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager={manager}&force={force}{dry_run}");
        self.send(Method::PATCH, &path, JSON, Some((APPLY_PATCH, object)))
            .await
    }

    /// Creates an object in a collection, and returns it.
    ///
    /// # Errors
    /// [`KubeError`]; status 409 if it exists.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, KubeError> {
        self.send(Method::POST, path, JSON, Some((JSON, object)))
            .await
    }

    /// Replaces an object, and returns it.
    ///
    /// # Errors
    /// [`KubeError`]; status 409 if its `resourceVersion` is outdated.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, KubeError> {
        self.send(Method::PUT, path, JSON, Some((JSON, object)))
            .await
    }

    /// Changes an object by a JSON patch (RFC 6902), and returns it.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn json_patch(&self, path: &str, patch: &Value) -> Result<Value, KubeError> {
        self.send(Method::PATCH, path, JSON, Some((JSON_PATCH, patch)))
            .await
    }

    /// Changes an object by a merge patch (RFC 7396), and returns it.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Value, KubeError> {
        self.send(Method::PATCH, path, JSON, Some((MERGE_PATCH, patch)))
            .await
    }

    /// Deletes an object, if `uid` is missing or its own.
    ///
    /// # Errors
    /// [`KubeError`]; status 409 if the object has another UID.
    pub async fn delete(
        &self,
        path: &str,
        uid: Option<&str>,
        propagation: Propagation,
    ) -> Result<Deletion, KubeError> {
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation.as_str(),
        });
        if let (Some(uid), Value::Object(options)) = (uid, &mut options) {
            options.insert("preconditions".to_owned(), json!({ "uid": uid }));
        }
        let sent = self
            .send(Method::DELETE, path, JSON, Some((JSON, &options)))
            .await;
        Ok(match found(sent)? {
            None => Deletion::Absent,
            Some(_) => Deletion::Accepted,
        })
    }

    /// Sends a request, and reads an answer with one object.
    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Value, KubeError> {
        self.throttled(|| async {
            let exchange = async {
                let response = self.open(method.clone(), path, accept, body).await?;
                let bytes = read(response.into_body(), MAX_OBJECT_BYTES).await?;
                serde_json::from_slice(&bytes).map_err(KubeError::unusable)
            };
            let answer = timeout(REQUEST_DEADLINE, exchange).await;
            answer.map_err(|_| late())?
        })
        .await
    }

    /// Sends a request in its turn. An overloaded API server (priority and fairness, KEP 1040) gets it again after the
    /// ordered delay, which holds all clones back.
    async fn throttled<T, F>(&self, send: impl Fn() -> F) -> Result<T, KubeError>
    where
        F: Future<Output = Result<T, KubeError>>,
    {
        let mut retries = 0;
        loop {
            self.rate.acquire().await;
            let answer = send().await;
            let delay = answer.as_ref().err().and_then(KubeError::throttle);
            match delay {
                Some(delay) if retries < MAX_THROTTLE_RETRIES => {
                    retries += 1;
                    self.rate.pause(delay);
                }
                _ => return answer,
            }
        }
    }

    /// Sends a request as [`KubeClient::open`] does, in its turn.
    pub(super) async fn open_in_turn(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<Response<fairlead_apiserver::AnswerBody>, KubeError> {
        self.throttled(|| self.open(Method::GET, path, accept, None))
            .await
    }

    /// Sends a request, and returns the answer of a success with its body unread.
    async fn open(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Response<fairlead_apiserver::AnswerBody>, KubeError> {
        let bytes = match body {
            None => Bytes::new(),
            Some((_, value)) => serde_json::to_vec(value)
                .map_err(KubeError::unusable)?
                .into(),
        };
        let mut request = Request::new(bytes);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(KubeError::unusable)?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        if let Some((kind, _)) = body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let token = self.token.as_ref().map(|token| {
            let token = token.read().unwrap_or_else(PoisonError::into_inner);
            token.clone()
        });
        let sent = self
            .upstream
            .send_as(request, token.as_ref(), REQUEST_DEADLINE)
            .await?;
        if sent.status().is_success() {
            return Ok(sent);
        }
        Err(refusal(sent).await)
    }
}

/// Reads the `Status` of a refused request.
async fn refusal(response: Response<fairlead_apiserver::AnswerBody>) -> KubeError {
    let status = response.status().as_u16();
    let seconds = response.headers().get(header::RETRY_AFTER);
    let seconds = seconds.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let body = timeout(
        REQUEST_DEADLINE,
        read(response.into_body(), MAX_OBJECT_BYTES),
    );
    let bytes = body.await.ok().and_then(Result::ok).unwrap_or_default();
    let mut body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if let (Some(seconds), Value::Object(map)) = (seconds, &mut body) {
        let details = map.entry("details").or_insert_with(|| json!({}));
        if let Value::Object(details) = details {
            details.entry("retryAfterSeconds").or_insert(json!(seconds));
        }
    }
    KubeError::Status { status, body }
}

/// Reads a body to its end.
pub(super) async fn read(
    mut body: fairlead_apiserver::AnswerBody,
    limit: usize,
) -> Result<Bytes, KubeError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(KubeError::unusable)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limit {
            return Err(KubeError::unusable("the answer is too large"));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

pub(super) fn late() -> KubeError {
    KubeError::Unreachable(format!("no answer within {} s", REQUEST_DEADLINE.as_secs()))
}

/// None for an answer 404.
fn found(answer: Result<Value, KubeError>) -> Result<Option<Value>, KubeError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(KubeError::Status { status, .. }) if status == StatusCode::NOT_FOUND.as_u16() => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
