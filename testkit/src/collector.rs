//! A collector of traces that keeps the spans it gets.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;
use tokio::sync::watch;

use crate::server::TestServer;

/// A collector on loopback, OTLP over HTTP. It stops when this is dropped.
pub struct FakeCollector {
    received: Arc<watch::Sender<Vec<ReceivedSpan>>>,
    server: TestServer,
}

/// A span, with the service that it is of and the headers of its export.
#[derive(Debug, Clone)]
pub struct ReceivedSpan {
    /// The span.
    pub span: Span,
    /// Name of the service.
    pub service: String,
    /// Headers of the export.
    pub headers: HeaderMap,
}

impl ReceivedSpan {
    /// Text or number of an attribute as a text; empty without it.
    #[must_use]
    pub fn attribute(&self, key: &str) -> String {
        text(&self.span.attributes, key)
    }

    /// Message of the status, which only a failed span has.
    #[must_use]
    pub fn failure(&self) -> String {
        let status = self.span.status.clone();
        status.unwrap_or_default().message
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|it| it.key == key);
    match found.and_then(|it| it.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

impl FakeCollector {
    /// Starts one.
    #[must_use]
    pub fn start() -> Self {
        let received = Arc::<watch::Sender<Vec<ReceivedSpan>>>::default();
        let sender = Arc::clone(&received);
        let service = service_fn(move |request: Request<Incoming>| {
            let sender = Arc::clone(&sender);
            async move { Ok::<_, Infallible>(answer(&sender, request).await) }
        });
        FakeCollector {
            received,
            server: TestServer::http(service),
        }
    }

    /// Address, without the path of traces.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Waits for this number of spans, and returns all, in the order of their ends.
    pub async fn spans(&self, count: usize) -> Vec<ReceivedSpan> {
        let mut received = self.received.subscribe();
        let enough = received.wait_for(|it| it.len() >= count).await;
        enough.unwrap().clone()
    }
}

async fn answer(
    received: &watch::Sender<Vec<ReceivedSpan>>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    if head.uri.path() != "/v1/traces" || head.headers["content-type"] != "application/x-protobuf" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let export = ExportTraceServiceRequest::decode(body).unwrap();
    let mut spans = Vec::new();
    for of_resource in export.resource_spans {
        let attributes = of_resource.resource.unwrap_or_default().attributes;
        let of_scopes = of_resource.scope_spans.into_iter();
        spans.extend(of_scopes.flat_map(|it| it.spans).map(|span| ReceivedSpan {
            span,
            service: text(&attributes, "service.name"),
            headers: head.headers.clone(),
        }));
    }
    received.send_modify(|all| all.extend(spans));
    response
}
