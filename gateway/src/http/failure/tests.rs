//! Tests of `failure`.

use http_body_util::BodyExt;

use super::*;

#[tokio::test]
async fn failure_has_the_accepted_encoding() {
    let failure = Failure::new(Code::AgentFull);
    let mut headers = HeaderMap::new();
    headers.insert(
        header::ACCEPT,
        HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json"),
    );
    let response = render(&failure, Shape::Status(accepted(&headers)));
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()[AGENT_CODE], "FL-1403");
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"k8s\0"));

    let response = render(&failure, Shape::Status(accepted(&HeaderMap::new())));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status["reason"], "TooManyRequests");
}

#[test]
fn only_429_and_an_unavailable_database_ask_for_a_retry() {
    for &code in Code::ALL {
        let response = render(&Failure::new(code), Shape::Reason);
        let asks = response.headers().contains_key(header::RETRY_AFTER);
        let should = response.status() == 429 || code == Code::StoreAway;
        assert_eq!(asks, should, "{code}");
    }
}
