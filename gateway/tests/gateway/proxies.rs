//! Clients behind proxies: their address by `X-Forwarded-For` of a trusted proxy.

use fairlead_runtime::proxies::Proxies;
use fairlead_testkit::raw::RawClient;

use crate::{audit::events, rig::Rig};

fn rig(trusted: &[&str]) -> Rig {
    Rig::with(|config| {
        config.proxies = Proxies {
            trusted: trusted.iter().map(|it| it.parse().unwrap()).collect(),
            proxy_protocol: false,
        };
    })
}

async fn get(rig: &Rig, headers: &str) -> u16 {
    let request = format!("GET /v1/none HTTP/1.1\r\nHost: hub.test\r\n{headers}\r\n");
    let answer = RawClient::plain(rig.plain).send(request).await;
    answer.unwrap().status
}

#[tokio::test]
async fn forwarded_address_of_a_trusted_proxy_is_in_the_audit() {
    let rig = rig(&["127.0.0.0/8"]);
    let token = "Authorization: Bearer good\r\n";
    let forwarded = "X-Forwarded-For: 198.51.100.1, 203.0.113.7, 127.0.0.9\r\n";
    get(&rig, &format!("{token}{forwarded}")).await;
    let from = |event: &fairlead_audit::AuditEvent| event.from.clone().unwrap();
    let found = events(&rig, 1, |event| from(event).starts_with("203.0.113.7")).await;
    // The port of the client is not known.
    assert_eq!(from(&found[0]), "203.0.113.7");
}

#[tokio::test]
async fn forwarded_address_of_anybody_else_counts_for_nothing() {
    let rig = rig(&["10.0.0.0/8"]);
    get(&rig, "X-Forwarded-For: 203.0.113.7\r\n").await;
    let from = |event: &fairlead_audit::AuditEvent| event.from.clone().unwrap();
    let found = events(&rig, 1, |_| true).await;
    assert!(from(&found[0]).starts_with("127.0.0.1:"), "{found:?}");
}

#[tokio::test]
async fn wrong_tokens_are_counted_by_the_forwarded_address() {
    let rig = rig(&["127.0.0.1"]);
    let wrong = async |from: &str| {
        let headers = format!("Authorization: Bearer wrong\r\nX-Forwarded-For: {from}\r\n");
        let request =
            format!("GET /k8s/clusters/c-a/who HTTP/1.1\r\nHost: hub.test\r\n{headers}\r\n");
        let answer = RawClient::plain(rig.plain).send(request).await;
        answer.unwrap().status
    };
    for _ in 0..30 {
        // Text to the left of the proxy's own entry is forged.
        assert_eq!(wrong("198.51.100.1, 203.0.113.7").await, 401);
    }
    assert_eq!(wrong("203.0.113.7").await, 429);
    assert_eq!(wrong("198.51.100.1").await, 401);
}
