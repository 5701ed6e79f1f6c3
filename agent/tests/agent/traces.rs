//! Spans of the agent, and their context on the path to the API server.

use fairlead_testkit::collector::FakeCollector;
use fairlead_traces::{OtlpHeaders, SampleRatio, TraceSettings};

use crate::rig::{Rig, body, last_probe, nothing, request, send};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn spans_of_a_request_join_the_trace_of_the_hub() {
    let collector = FakeCollector::start();
    let rig = Rig::new().await;
    let mut config = rig.config();
    config.traces = Some(TraceSettings {
        endpoint: collector.url().parse().unwrap(),
        headers: OtlpHeaders::default(),
        ca: None,
        ratio: SampleRatio::ALL,
        service: "agent".to_owned(),
    });
    let _agent = rig.start(config);
    let hub = rig.hub.next().await;
    // A probe has no span.
    send(&hub.exchanges, last_probe()).await;
    let outgoing = request("GET", "/echo?limit=secret").header("traceparent", PARENT);
    let answer = send(&hub.exchanges, outgoing.body(nothing()).unwrap()).await;
    body(answer).await;
    let refused = request("GET", "/a/../b").header("traceparent", PARENT);
    let refused = send(&hub.exchanges, refused.body(nothing()).unwrap()).await;
    let code = refused.headers()["fairlead-code"].clone();
    body(refused).await;

    let spans = collector.spans(3).await;
    let names: Vec<&str> = spans.iter().map(|it| it.span.name.as_str()).collect();
    assert_eq!(names, ["api-server", "agent", "agent"]);
    let [api, agent, refused] = spans.as_slice() else {
        panic!("{spans:?}");
    };
    assert!(spans.iter().all(|it| hex(&it.span.trace_id) == TRACE));
    assert_eq!(hex(&agent.span.parent_span_id), "b7ad6b7169203331");
    assert_eq!(api.span.parent_span_id, agent.span.span_id);
    let sent = format!("00-{TRACE}-{}-01", hex(&api.span.span_id));
    assert_eq!(rig.api.last("/echo").all("traceparent"), [sent]);
    assert_eq!(api.attribute("http.response.status_code"), "200");
    assert_eq!(agent.attribute("fairlead.request.id"), "r-1");
    assert_eq!(agent.attribute("url.path"), "/echo");
    assert_eq!(refused.failure(), code.to_str().unwrap());
    assert!(!format!("{spans:?}").contains("secret"));
}

#[tokio::test]
async fn without_tracing_the_context_of_the_hub_passes() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let outgoing = request("GET", "/echo").header("traceparent", PARENT);
    send(&hub.exchanges, outgoing.body(nothing()).unwrap()).await;
    assert_eq!(rig.api.last("/echo").all("traceparent"), [PARENT]);
}
