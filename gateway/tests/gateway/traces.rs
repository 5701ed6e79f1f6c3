//! Spans of requests, and their context on the path to the agent.

use fairlead_api::resources::ClusterState;
use fairlead_testkit::{
    agent::FakeAgent,
    collector::{FakeCollector, ReceivedSpan},
};

use crate::{
    client::{ROOT, status},
    forwarded::joined,
    rig::{HUB, Rig},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
/// Not to be exported.
const UNSAMPLED: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(spans: &[ReceivedSpan]) -> Vec<&str> {
    spans.iter().map(|it| it.span.name.as_str()).collect()
}

fn of<'a>(spans: &'a [ReceivedSpan], service: &str, name: &str) -> &'a ReceivedSpan {
    let mut found = spans
        .iter()
        .filter(|it| it.service == service && it.span.name == name);
    found.next().unwrap()
}

/// Asserts that `child` is a direct part of `parent`, in the trace of the client.
fn assert_part(child: &ReceivedSpan, parent: &ReceivedSpan) {
    assert_eq!(child.span.parent_span_id, parent.span.span_id);
    assert_eq!(hex(&child.span.trace_id), TRACE);
}

#[tokio::test]
async fn spans_of_a_request_join_the_trace_of_its_client() {
    let collector = FakeCollector::start();
    let rig = Rig::traced("hub", None, &collector);
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let path = format!("{ROOT}/headers?fieldSelector=secret");
    let headers = format!("{PARENT}tracestate: a=1\r\n");
    let answer = rig.get(HUB, &path, &headers).await;

    let spans = collector.spans(2).await;
    assert_eq!(names(&spans), ["session", "front"]);
    let (front, session) = (of(&spans, "hub", "front"), of(&spans, "hub", "session"));
    assert_eq!(hex(&front.span.parent_span_id), "b7ad6b7169203331");
    assert_part(session, front);
    let sent = format!(
        "traceparent: 00-{TRACE}-{}-01\n",
        hex(&session.span.span_id)
    );
    let text = answer.text() + "\n";
    assert!(
        text.contains(&sent) && text.contains("tracestate: a=1\n"),
        "{text}"
    );
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("fairlead.cluster", "c-a"),
        ("fairlead.tenant", "t-acme"),
        ("fairlead.outcome", "ok"),
    ] {
        assert_eq!(front.attribute(key), value, "{key}");
    }
    assert!(front.attribute("url.path").ends_with("/headers"));
    let shown = format!("{spans:?}");
    assert!(
        !shown.contains("secret") && !shown.contains("good"),
        "{shown}"
    );
    // The histogram leads to the trace.
    let metrics = rig.process.registry().openmetrics();
    let exemplars = metrics.lines().filter(|it| it.contains(TRACE));
    let exemplars: Vec<&str> = exemplars.collect();
    let phase = |name: &str| {
        exemplars
            .iter()
            .any(|it| it.contains(&format!("phase=\"{name}\"")))
    };
    assert!(phase("gateway") && phase("tunnel"), "{exemplars:?}");
}

#[tokio::test]
async fn a_hop_between_hubs_has_spans_of_both() {
    let collector = FakeCollector::start();
    let one = Rig::traced("one", None, &collector);
    let two = Rig::traced("two", Some(&one.authority), &collector);
    let _agent = joined(&one, &two).await;
    let answer = one.get(HUB, &format!("{ROOT}/headers"), PARENT).await;
    assert_eq!(answer.status, 200);

    let spans = collector.spans(4).await;
    let (front, hop) = (of(&spans, "one", "front"), of(&spans, "one", "hop"));
    let (relay, session) = (of(&spans, "two", "relay"), of(&spans, "two", "session"));
    assert_part(hop, front);
    assert_part(relay, hop);
    assert_part(session, relay);
    let sent = format!("traceparent: 00-{TRACE}-{}-01", hex(&session.span.span_id));
    assert!(answer.text().contains(&sent), "{}", answer.text());
    assert_eq!(relay.attribute("fairlead.cluster"), "c-a");
    assert_eq!(
        front.attribute("fairlead.request.id"),
        relay.attribute("fairlead.request.id")
    );
}

#[tokio::test]
async fn failures_have_their_code_and_strangers_no_span() {
    let collector = FakeCollector::start();
    let rig = Rig::traced("hub", None, &collector);
    let stranger = format!(
        "GET {ROOT}/api HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer wrong\r\n{PARENT}\r\n"
    );
    assert_eq!(rig.raw(HUB, stranger.as_bytes()).await.status, 401);
    let unsampled = rig
        .get(HUB, &format!("{ROOT}/api?watch=1"), UNSAMPLED)
        .await;
    let failed = rig.get(HUB, &format!("{ROOT}/api?watch=1"), PARENT).await;
    assert_eq!((unsampled.status, failed.status), (503, 503));

    let spans = collector.spans(1).await;
    assert_eq!(names(&spans), ["front"]);
    let code = failed.code();
    assert!(code.starts_with("FL-"), "{code}");
    assert_eq!(spans[0].attribute("fairlead.code"), code);
    assert_eq!(spans[0].failure(), code);
}

#[tokio::test]
async fn without_tracing_the_context_of_the_client_passes() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let answer = rig.get(HUB, &format!("{ROOT}/headers"), PARENT).await;
    assert!(answer.text().contains(PARENT.trim()), "{}", answer.text());
    assert!(!rig.process.registry().openmetrics().contains("trace_id"));
}
