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

/// Each code with a status that makes client-go look for `Retry-After`, and the seconds of that header.
const RETRIES: [(Code, Option<&str>); 23] = [
    // A wrong token stays wrong.
    (Code::TooManyWrongTokens, None),
    (Code::IssuerDown, None),
    (Code::BodyMemoryFull, Some("1")),
    (Code::NeverConnected, None),
    // The hub has waited for the agent already.
    (Code::Lost, None),
    (Code::AgentFull, Some("1")),
    (Code::Draining, Some("2")),
    (Code::TooManyRequests, Some("1")),
    (Code::OtherHub, None),
    (Code::HubWithoutSession, None),
    (Code::AgentOverBudget, Some("1")),
    (Code::TooManyTransfers, Some("1")),
    (Code::Store, None),
    (Code::StoreAway, Some("5")),
    // A person reads the text and its quota.
    (Code::TooManyChanges, None),
    (Code::InfluxAway, None),
    // The client has to change its transport, or a person the hub.
    (Code::Unrecordable, None),
    // Clients of Git and agents have pauses of their own.
    (Code::GitProxyFull, None),
    (Code::AdoptionsFull, None),
    // The hub tries again by itself, and a person reads the state.
    (Code::VaultSealed, None),
    (Code::VaultAway, None),
    // The cause names the time.
    (Code::GitServerThrottled, None),
    // Possibly carried out.
    (Code::Timeout, None),
];

#[test]
fn clients_retry_only_where_a_retry_soon_helps() {
    for &code in Code::ALL {
        let response = render(&Failure::new(code), Shape::Reason);
        let sent = response.headers().get(header::RETRY_AFTER);
        let sent = sent.map(|sent| sent.to_str().unwrap());
        let expected = RETRIES.iter().find(|(of, _)| *of == code);
        if matches!(response.status().as_u16(), 429 | 503) {
            assert!(expected.is_some(), "{code}: does a retry soon help?");
        }
        assert_eq!(sent, expected.and_then(|(_, seconds)| *seconds), "{code}");
    }
}
