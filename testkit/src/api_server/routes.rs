//! Answers by path.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use bytes::Bytes;
use fairlead_exchange::{Body, BodyError};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::mpsc;

use super::{
    deployment::DEPLOYMENT_PATH,
    response::{Headers, respond},
    script::{ApiScript, BodyStep, ReceivedRequest},
    upgrades,
};
use crate::body::full;

impl ApiScript {
    /// Answers a request, as the path asks for it. The default is 200 with the path as body.
    ///
    /// # Panics
    /// The request breaks a rule of the script.
    pub async fn answer(self: &Arc<Self>, mut request: Request<Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        self.received.lock().unwrap().push(ReceivedRequest {
            path: path.clone(),
            headers: request.headers().clone(),
        });
        if self.hangs.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        if let Some(answer) = self.scripted(&request) {
            return answer;
        }
        if request.method() == Method::CONNECT && request.uri().port_u16() == Some(80) {
            return upgrades::http_target(&mut request, self);
        }
        if request.method() == Method::CONNECT {
            return upgrades::tunnel(&mut request, self);
        }
        if request.headers().contains_key("upgrade") {
            match path.as_str() {
                "/exec" => return upgrades::exec(&mut request, self),
                "/echo" => return upgrades::echo(&mut request),
                path if path.ends_with("/pods/p/exec") => return upgrades::channels(&mut request),
                _ => {}
            }
        }
        match path.as_str() {
            DEPLOYMENT_PATH => self.stored_deployment(request).await,
            path if path.starts_with("/apis/") => respond(404, &[], "{}"),
            "/readyz" if self.unready.load(SeqCst) => respond(500, &[], "[-]etcd failed"),
            "/api/v1/namespaces/kube-system" => self.namespace(),
            path if path.starts_with("/api/v1/namespaces/fairlead-site/secrets") => {
                self.stored_secret(request).await
            }
            "/watch" => Response::new(self.watch()),
            "/stream" => {
                let body = self.streams.lock().unwrap().remove(0);
                Response::new(steps(body))
            }
            path if path.ends_with("/pods/p/log") => self.stream_of("text/plain"),
            "/events" => self.stream_of("application/json"),
            "/silent" => std::future::pending().await,
            "/redirect" => {
                let redirect = self.redirect.lock().unwrap();
                let headers = redirect
                    .1
                    .iter()
                    .map(|(name, value)| (*name, value.as_str()));
                respond(redirect.0, &headers.collect::<Vec<_>>(), "moved")
            }
            "/headers" => Response::new(full(header_lines(request.headers()))),
            "/collect" => {
                let body = request.into_body().collect().await;
                let read = body.map(|body| body.to_bytes().len());
                Response::new(full(format!("{read:?}")))
            }
            "/upload" => {
                let whole = request.into_body().collect().await.unwrap();
                let trailers = whole.trailers().map_or(0, HeaderMap::len);
                let bytes = whole.to_bytes().len();
                respond(200, &[], format!("{bytes} bytes, {trailers} trailers"))
            }
            "/early" => early(request.into_body()),
            "/breaks" => self.broken(),
            "/checksum" => with_trailer("x-sum", "42"),
            "/trailers" => with_trailer("grpc-status", "0"),
            other => fixed(other),
        }
    }

    /// Answers of the current test, and 401 for a wrong token.
    fn scripted(&self, request: &Request<Body>) -> Option<Response<Body>> {
        let sent = request.headers().get("authorization");
        let sent = sent.and_then(|value| value.to_str().ok());
        if let Some(token) = self.token.lock().unwrap().as_ref()
            && sent != Some(&format!("Bearer {token}"))
        {
            return Some(respond(401, &[], "who are you?"));
        }
        let answers = self.answers.lock().unwrap();
        let (code, answer) = answers.get(&request.uri().to_string())?;
        Some(respond(*code, &[], answer.to_string()))
    }

    /// The steps of [`ApiScript::next_stream`], with a content type.
    fn stream_of(&self, content_type: &'static str) -> Response<Body> {
        let body = self.streams.lock().unwrap().remove(0);
        let mut response = Response::new(steps(body));
        let content_type = HeaderValue::from_static(content_type);
        response.headers_mut().insert("content-type", content_type);
        response
    }

    fn namespace(&self) -> Response<Body> {
        match self.uid.lock().unwrap().as_ref() {
            Some(uid) => respond(200, &[], format!(r#"{{"metadata":{{"uid":"{uid}"}}}}"#)),
            None => respond(503, &[], ""),
        }
    }

    /// Sends each event as it happens, and counts the watch while its client reads.
    fn watch(self: &Arc<Self>) -> Body {
        struct Counted(Arc<ApiScript>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.watches.fetch_sub(1, SeqCst);
            }
        }
        self.watches.fetch_add(1, SeqCst);
        let state = (Counted(self.clone()), self.events.subscribe());
        let frames = stream::unfold(state, |(counted, mut events)| async move {
            events.changed().await.ok()?;
            let event = events.borrow_and_update().clone();
            let frame = Ok::<_, BodyError>(Frame::data(Bytes::from(event.clone())));
            (event != "end").then_some((frame, (counted, events)))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// Half of a body, and an error at the next event.
    fn broken(&self) -> Response<Body> {
        let mut events = self.events.subscribe();
        let half = stream::iter([Ok(Frame::data(Bytes::from("half")))]);
        let broken = stream::once(async move {
            let _ = events.changed().await;
            Err(BodyError::from("broken"))
        });
        Response::new(StreamBody::new(half.chain(broken)).boxed_unsync())
    }

    /// One Secret with the optimistic locking of a real API server.
    async fn stored_secret(&self, request: Request<Body>) -> Response<Body> {
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut stored = self.secret.lock().unwrap();
        let version = |secret: &serde_json::Value| {
            let version = secret["metadata"]["resourceVersion"].as_str();
            version.unwrap_or("0").to_owned()
        };
        match (method.as_str(), stored.clone()) {
            ("GET", None) | ("PUT", None) => respond(404, &[], "{}"),
            ("GET", Some(secret)) => respond(200, &[], secret.to_string()),
            ("POST", Some(_)) => respond(409, &[], "{}"),
            (_, before) => {
                let mut secret: serde_json::Value = serde_json::from_slice(&body).unwrap();
                let before = before.as_ref().map_or("0".to_owned(), version);
                if version(&secret) != before {
                    return respond(409, &[], "{}");
                }
                let next = before.parse::<u64>().unwrap() + 1;
                secret["metadata"]["resourceVersion"] = next.to_string().into();
                *stored = Some(secret);
                respond(200, &[], "{}")
            }
        }
    }
}

/// Answers that depend on the path only.
fn fixed(path: &str) -> Response<Body> {
    let (status, headers, body): (u16, Headers<'_>, &str) = match path {
        "/teapot" => (
            418,
            &[
                ("x-its-own", "1"),
                ("fairlead-code", "FL-1101"),
                ("connection", "x-hop"),
                ("x-hop", "1"),
            ],
            "short and stout",
        ),
        "/too-large" => (413, &[], "too large"),
        "/not-found" => (404, &[("content-type", "text/x")], "no such thing"),
        "/unchanged" => (304, &[("etag", "\"7\"")], ""),
        "/gzip" => (200, &[("content-encoding", "gzip")], "\x1f not really"),
        "/liar" => (
            200,
            &[("fairlead-user", "x"), ("fairlead-upstream-micros", "7")],
            "",
        ),
        "/no-upgrade" => (403, &[("content-type", "application/json")], "{\"no\":1}"),
        "/own" => (502, &[("fairlead-code", "FL-1502")], "connection refused"),
        "/foreign" => (401, &[("fairlead-code", "FL-1101")], "log in again"),
        other => (200, &[], other),
    };
    respond(status, headers, body.to_owned())
}

fn steps(mut steps: mpsc::Receiver<BodyStep>) -> Body {
    let stream = stream::poll_fn(move |cx| steps.poll_recv(cx));
    StreamBody::new(stream).boxed_unsync()
}

fn header_lines(headers: &HeaderMap) -> String {
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines.concat()
}

/// Answers before the upload is complete, and ends with the size of the upload.
fn early(mut upload: Body) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let begin = Frame::data(Bytes::from_static(b"early "));
        sender.send(Ok(begin)).await.unwrap();
        let mut total = 0;
        while let Some(Ok(frame)) = upload.frame().await {
            total += frame.data_ref().map_or(0, Bytes::len);
        }
        let end = Frame::data(Bytes::from(total.to_string()));
        sender.send(Ok(end)).await.unwrap();
    });
    Response::new(steps(receiver))
}

fn with_trailer(name: &'static str, value: &'static str) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, HeaderValue::from_static(value));
    let frames = [
        Ok::<_, BodyError>(Frame::data(Bytes::from("body"))),
        Ok(Frame::trailers(trailers)),
    ];
    let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
    response
        .headers_mut()
        .insert("trailer", HeaderValue::from_static(name));
    response
}
