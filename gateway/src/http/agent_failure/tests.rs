//! Tests of `agent_failure`.

use super::*;

#[test]
fn agent_may_report_only_its_own_codes() {
    for (said, heard) in [
        ("FL-1501", Some(Code::AgentRefused)),
        ("FL-1502", Some(Code::ApiUnreachable)),
        ("FL-1202", Some(Code::NoImpersonation)),
        ("FL-1201", None),
        ("FL-1101", None),
        ("FL-1301", None),
        ("FL-2109", None),
        ("FL-9999", None),
        ("", None),
    ] {
        assert_eq!(
            allowed_code(&HeaderValue::from_static(said)),
            heard,
            "{said}"
        );
    }
}

#[tokio::test]
async fn cause_of_an_agent_becomes_one_sentence() {
    let failure = failure_from(
        Some(Code::ApiUnreachable),
        body::full("connect:\r\nrefused\n"),
    )
    .await;
    assert_eq!(
        failure.cause,
        "the agent cannot reach its API server: connect:  refused"
    );
    let same = failure_from(
        Some(Code::ApiUnreachable),
        body::full(failure.cause.clone()),
    )
    .await;
    assert_eq!(same, failure);
    let silent = failure_from(Some(Code::ApiUnreachable), body::full("x".repeat(9999))).await;
    assert_eq!(silent, Failure::new(Code::ApiUnreachable));
}
