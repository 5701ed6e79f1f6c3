//! One kept connection to the hub's API, with one request at a time.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use rustls::ClientConfig;
use tokio::time::{self, Instant};

use crate::dial::Dial;

const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct BenchCaller {
    dial: Dial,
    host: HeaderValue,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// A request without its token.
#[derive(Debug, Clone)]
pub(crate) struct HubRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<(&'static str, Bytes)>,
}

impl HubRequest {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        HubRequest {
            method: Method::GET,
            path: path.into(),
            body: None,
        }
    }

    pub(crate) fn post(path: impl Into<String>, body: &serde_json::Value) -> Self {
        HubRequest {
            method: Method::POST,
            body: Some(("application/json", body.to_string().into())),
            ..HubRequest::get(path)
        }
    }

    pub(crate) fn put(path: impl Into<String>, body: &serde_json::Value) -> Self {
        HubRequest {
            method: Method::PUT,
            ..HubRequest::post(path, body)
        }
    }

    pub(crate) fn patch(path: impl Into<String>, body: &serde_json::Value) -> Self {
        HubRequest {
            method: Method::PATCH,
            body: Some(("application/merge-patch+json", body.to_string().into())),
            ..HubRequest::get(path)
        }
    }
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// From the first byte of the request to the last byte of the answer.
    pub(crate) took: Duration,
}

impl BenchCaller {
    /// Connects with the first request.
    pub(crate) fn new(url: &str, tls: Option<Arc<ClientConfig>>) -> anyhow::Result<Self> {
        let url: Uri = url.parse()?;
        let authority = url.authority().context("the URL has no host")?;
        Ok(BenchCaller {
            dial: Dial::new(authority, authority.host(), tls, None)?,
            host: HeaderValue::from_str(authority.as_str())?,
            sender: None,
        })
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let (sender, driver) = http1::handshake(self.dial.open().await?).await?;
        // The task ends with its connection.
        drop(tokio::spawn(driver));
        Ok(sender)
    }

    pub(crate) async fn send(
        &mut self,
        request: &HubRequest,
        token: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let answered = time::timeout(ANSWER_DEADLINE, self.exchange(request, token));
        let answered = answered.await.context("no answer in time")?;
        answered.with_context(|| format!("{} {}", request.method, request.path))
    }

    async fn exchange(
        &mut self,
        request: &HubRequest,
        token: Option<&str>,
    ) -> anyhow::Result<Answer> {
        // The hub may have closed the connection meanwhile.
        if let Some(mut kept) = self.sender.take()
            && kept.ready().await.is_ok()
            && let Ok(answer) = exchange(&mut kept, self.http(request, token)?).await
        {
            self.sender = Some(kept);
            return Ok(answer);
        }
        let mut sender = self.connect().await?;
        let answer = exchange(&mut sender, self.http(request, token)?).await?;
        self.sender = Some(sender);
        Ok(answer)
    }

    fn http(
        &self,
        request: &HubRequest,
        token: Option<&str>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let body = request.body.as_ref().map(|(_, body)| body.clone());
        let mut http = Request::new(Full::new(body.unwrap_or_default()));
        *http.method_mut() = request.method.clone();
        *http.uri_mut() = request.path.parse()?;
        let headers = http.headers_mut();
        headers.insert(HOST, self.host.clone());
        if let Some((kind, _)) = request.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if let Some(token) = token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(http)
    }

    /// As [`BenchCaller::send`]; any failed status is an error that quotes the answer.
    pub(crate) async fn good(
        &mut self,
        request: &HubRequest,
        token: &str,
    ) -> anyhow::Result<Answer> {
        let answer = self.send(request, Some(token)).await?;
        let start = answer.body.get(..answer.body.len().min(300));
        ensure!(
            answer.status.is_success(),
            "{} {}: {}: {}",
            request.method,
            request.path,
            answer.status,
            String::from_utf8_lossy(start.unwrap_or_default())
        );
        Ok(answer)
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let begun = Instant::now();
    let answer = sender.send_request(request).await?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
        took: begun.elapsed(),
    })
}
