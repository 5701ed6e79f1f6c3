//! Export of spans to a collector in the same process.

#![cfg(test)]

use fairlead_runtime::Process;
use fairlead_testkit::collector::FakeCollector;
use fairlead_traces::{OtlpEndpoint, OtlpHeaders, SampleRatio, SpanRole, TraceSettings, Traces};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::net::TcpListener;

/// Spans that wait at most.
const QUEUE_SPANS: usize = 4096;
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn settings(collector: &FakeCollector, ratio: &str) -> TraceSettings {
    TraceSettings {
        endpoint: collector.url().parse().unwrap(),
        headers: "authorization=Bearer secret".parse().unwrap(),
        ca: None,
        ratio: ratio.parse().unwrap(),
        service: "fairlead-test".to_owned(),
    }
}

fn headers(parent: Option<&'static str>) -> HeaderMap {
    let parent = parent.map(|it| ("traceparent".parse().unwrap(), HeaderValue::from_static(it)));
    parent.into_iter().collect()
}

fn spans_counted(process: &Process, outcome: &str) -> f64 {
    let families = process.registry().gather();
    let family = families
        .iter()
        .find(|it| it.name() == "fairlead_spans_total");
    let rows = family.unwrap().get_metric().iter();
    let mut rows = rows.filter(|it| it.get_label()[0].value() == outcome);
    rows.next().unwrap().get_counter().get_value()
}

#[tokio::test]
async fn spans_of_a_request_are_one_trace_with_its_sender_as_parent() {
    let collector = FakeCollector::start();
    let process = Process::new();
    let traces = Traces::start(Some(&settings(&collector, "0")), "one", &process).unwrap();
    let trace = traces.request(&headers(Some(PARENT))).unwrap();
    let front = trace.begin(SpanRole::Front);
    front.text("url.path", "/api");
    let session = front.child(SpanRole::Session);
    let mut sent = headers(Some(PARENT));
    session.inject(&mut sent);
    session.answered(StatusCode::OK);
    session.fail("FL-1404");
    let agent = traces.request(&sent).unwrap();
    drop(agent.begin(SpanRole::Agent).child(SpanRole::ApiServer));
    drop((agent, session, trace));
    traces.finish().await;

    let spans = collector.spans(4).await;
    let names: Vec<&str> = spans.iter().map(|it| it.span.name.as_str()).collect();
    assert_eq!(names, ["api-server", "agent", "session", "front"]);
    let of = |name: &str| spans.iter().find(|it| it.span.name == name).unwrap();
    let (front, session) = (of("front"), of("session"));
    let (agent, api) = (of("agent"), of("api-server"));
    assert!(
        spans
            .iter()
            .all(|it| it.span.trace_id == front.span.trace_id)
    );
    let parent = [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31];
    assert_eq!(front.span.parent_span_id, parent);
    assert_eq!(session.span.parent_span_id, front.span.span_id);
    assert_eq!(agent.span.parent_span_id, session.span.span_id);
    assert_eq!(api.span.parent_span_id, agent.span.span_id);
    assert!(front.span.start_time_unix_nano <= session.span.start_time_unix_nano);
    assert_eq!(front.attribute("url.path"), "/api");
    assert_eq!(
        (front.failure(), session.failure()),
        (String::new(), "FL-1404".into())
    );
    assert_eq!(api.failure(), "no answer");
    assert_eq!(front.service, "fairlead-test");
    assert_eq!(front.headers["authorization"], "Bearer secret");
    assert_eq!(spans_counted(&process, "exported"), 4.0);
}

#[tokio::test]
async fn clients_decide_on_the_sampling_and_others_by_ratio() {
    let collector = FakeCollector::start();
    let process = Process::new();
    let traces = Traces::start(Some(&settings(&collector, "0")), "one", &process).unwrap();
    for parent in [Some(UNSAMPLED), None, Some(PARENT)] {
        let trace = traces.request(&headers(parent)).unwrap();
        let span = trace.begin(SpanRole::Front);
        assert_eq!(span.sampled_trace().is_some(), parent == Some(PARENT));
        // The next hop must not decide again.
        let mut sent = HeaderMap::new();
        span.inject(&mut sent);
        let flag = if parent == Some(PARENT) { "-01" } else { "-00" };
        let sent = sent["traceparent"].to_str().unwrap();
        assert!(sent.ends_with(flag), "{sent}");
    }
    traces.finish().await;
    assert_eq!(collector.spans(1).await.len(), 1);

    let process = Process::new();
    let all = Traces::start(Some(&settings(&collector, "1")), "one", &process).unwrap();
    all.request(&headers(None)).unwrap().begin(SpanRole::Front);
    let unsampled = all.request(&headers(Some(UNSAMPLED))).unwrap();
    assert!(unsampled.begin(SpanRole::Front).sampled_trace().is_none());
    drop(unsampled);
    all.finish().await;
    assert_eq!(collector.spans(2).await.len(), 2);
}

#[tokio::test]
async fn a_request_without_a_caller_has_no_span() {
    let collector = FakeCollector::start();
    let process = Process::new();
    let traces = Traces::start(Some(&settings(&collector, "1")), "one", &process).unwrap();
    drop(traces.request(&headers(Some(PARENT))).unwrap());
    let known = traces.request(&headers(None)).unwrap();
    assert!(known.span().is_none());
    known.begin(SpanRole::Front);
    assert!(known.span().is_some());
    drop(known);
    traces.finish().await;
    assert_eq!(collector.spans(1).await.len(), 1);
}

#[tokio::test]
async fn spans_beyond_the_queue_are_dropped_and_counted() {
    let process = Process::new();
    // A listener that accepts nobody: the first export waits.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let settings = TraceSettings {
        endpoint: endpoint.parse().unwrap(),
        headers: OtlpHeaders::default(),
        ca: None,
        ratio: SampleRatio::ALL,
        service: "fairlead-test".to_owned(),
    };
    let traces = Traces::start(Some(&settings), "one", &process).unwrap();
    for _ in 0..=QUEUE_SPANS {
        let trace = traces.request(&HeaderMap::new()).unwrap();
        trace.begin(SpanRole::Front);
    }
    // The task of the export has not run in between.
    assert_eq!(spans_counted(&process, "dropped"), 1.0);
    drop(listener);
}

#[tokio::test]
async fn a_refusal_of_the_collector_is_counted() {
    let collector = FakeCollector::start();
    let process = Process::new();
    let mut settings = settings(&collector, "1");
    settings.endpoint = OtlpEndpoint::of_traces(&collector.url()).unwrap();
    let traces = Traces::start(Some(&settings), "one", &process).unwrap();
    traces
        .request(&HeaderMap::new())
        .unwrap()
        .begin(SpanRole::Front);
    traces.finish().await;
    assert_eq!(spans_counted(&process, "failed"), 1.0);
    assert_eq!(spans_counted(&process, "exported"), 0.0);
}

#[tokio::test]
async fn tracing_is_off_by_default() {
    let process = Process::new();
    let traces = Traces::start(None, "one", &process).unwrap();
    assert!(traces.request(&headers(Some(PARENT))).is_none());
    assert!(Traces::off().request(&HeaderMap::new()).is_none());
    assert_eq!(spans_counted(&process, "exported"), 0.0);
    traces.finish().await;
}
