//! Status codes of requests.

use fairlead_api::resources::Role;

use crate::rig::Rig;

#[tokio::test]
async fn a_wrong_token_of_any_form_is_401() {
    let rig = Rig::new().await;
    let good = rig.token(Role::Admin, None, None).await;
    let wrong = [
        "None".to_owned(),
        "x".to_owned(),
        format!("{good}x"),
        good[..good.len() - 1].to_owned(),
        good.to_uppercase(),
        format!("flt_{}", "A".repeat(43)),
        "flt_".to_owned(),
        "e30.e30.e30".to_owned(),
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.".to_owned(),
        "c-demo.1.1800000000.AAAA".to_owned(),
        "a b".to_owned(),
        "x".repeat(10_000),
    ];
    for token in wrong {
        for path in ["/clusters", "/v1/tokens"] {
            let reply = rig.as_who(&token, "GET", path, "").await;
            assert_eq!(reply.status, 401, "{path} {token:.80}");
            assert!(!reply.reason().contains(&token), "{path} {token:.80}");
        }
    }
}

#[tokio::test]
async fn a_wrong_method_is_405_with_the_allowed_methods() {
    let rig = Rig::new().await;
    for (method, path, allow) in [
        ("DELETE", "/clusters", "GET,HEAD,POST"),
        ("POST", "/clusters/c-x", "GET,HEAD,PUT,PATCH,DELETE"),
        ("GET", "/clusters/c-x/compileMeta", "POST"),
        ("POST", "/install/steward.json", "GET,HEAD"),
        ("POST", "/", "GET,HEAD"),
    ] {
        let reply = rig.call(method, path, "").await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, allow),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn a_scheme_that_only_begins_with_bearer_is_refused() {
    let rig = Rig::new().await;
    let good = rig.token(Role::Admin, None, None).await;
    for odd in [
        "BearerX ", "BearerX", "Bearer", "Bearer:", "Bearers ", "XBearer ",
    ] {
        let sent = format!("{odd}{good}");
        let headers = [("authorization", sent.as_str())];
        let reply = rig.send("GET", "/clusters", &headers, "").await;
        reply.is(400, "missing or malformed jwt");
    }
    let sent = format!("Bearer {good}");
    let headers = [("authorization", sent.as_str())];
    assert_eq!(rig.send("GET", "/clusters", &headers, "").await.status, 200);
}

#[tokio::test]
async fn no_request_gives_500() {
    let rig = Rig::new().await;
    rig.demo().await;
    let deep = "[".repeat(5000) + &"]".repeat(5000);
    let odd = [
        "",
        "null",
        "0",
        "\"\"",
        "[]",
        "{}",
        "[{}]",
        "{\"facts\":null}",
        "{\"facts\":{\"\":\"\"}}",
        "{\"displayName\":\"\\u0000\"}",
        "{\"displayName\":\"\\ud800\"}",
        "{\"gitRepo\":{\"url\":\"\\u202e\"}}",
        "{\"compileMeta\":{\"lastCompile\":\"9999-99-99\"}}",
        "{\"tenantRef\":\"../..\"}",
        "{\"id\":{},\"tenant\":[]}",
        "{\"dynamicFacts\":{\"x\":1e400}}",
        "{\"clusterTemplate\":{\"gitRepo\":7}}",
        &deep,
    ];
    for path in [
        "/clusters",
        "/clusters/c-demo",
        "/tenants",
        "/tenants/t-acme",
        "/clusters/c-demo/compileMeta",
        "/clusters/%00",
        "/tenants/%c3%28",
    ] {
        for method in ["POST", "PUT", "PATCH"] {
            for body in odd {
                let reply = rig.call(method, path, body).await;
                assert!(reply.status < 500, "{method} {path} {body:.80}: {reply:?}");
            }
        }
        for query in [
            "?%ff",
            "?tenant=%00",
            "?sort_by=%",
            "?limit=-1",
            "?cursor=%2f",
            "?selector=((",
            "?fact=",
            "?text=%e2",
            "?text=%00",
        ] {
            let reply = rig.get(&format!("{path}{query}")).await;
            assert!(reply.status < 500, "{path}{query}: {reply:?}");
        }
    }
}
