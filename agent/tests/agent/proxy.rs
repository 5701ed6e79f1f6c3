//! Requests of the hub, through to the API server and back.

use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use fairlead_exchange::BodyError;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use crate::{
    rig::{Rig, body, get, nothing, request, send, soon, text, until},
    upgrade::exec,
};

#[tokio::test]
async fn request_impersonates_the_user_with_the_agents_own_token() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let outgoing = request("GET", "/echo?limit=1")
        .header("authorization", "Bearer stolen")
        .header("impersonate-user", "system:admin")
        .header("Impersonate-Extra-Scopes", "all")
        .header("cookie", "a=b")
        .header("x-remote-user", "root")
        .header("connection", "x-drop")
        .header("x-drop", "1")
        .header("accept", "application/json;as=Table");
    let answer = send(&hub.exchanges, outgoing.body(nothing()).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let micros: u64 = answer.headers()["fairlead-upstream-micros"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(micros > 0);
    let seen = rig.api.last("/echo");
    assert_eq!(seen.all("authorization"), ["Bearer token-1"]);
    assert_eq!(seen.all("impersonate-user"), ["fairlead:ann"]);
    assert_eq!(
        seen.all("impersonate-group"),
        ["fairlead:viewer", "fairlead:tenant:t-acme:viewer"]
    );
    assert_eq!(seen.all("accept"), ["application/json;as=Table"]);
    assert_eq!(seen.all("host"), [format!("127.0.0.1:{}", rig.api.port())]);
    for gone in [
        "cookie",
        "x-remote-user",
        "x-drop",
        "connection",
        "impersonate-extra-scopes",
    ] {
        assert!(seen.all(gone).is_empty(), "{gone}");
    }
    assert!(
        seen.headers
            .keys()
            .all(|name| !name.as_str().starts_with("fairlead-"))
    );
}

#[tokio::test]
async fn redirect_becomes_a_path_of_the_api_server_or_fails() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let own = format!("https://127.0.0.1:{}", rig.api.port());
    let redirect = async |status: u16, target: &str| {
        let headers = vec![("location", target.to_owned())];
        *rig.api.script.redirect.lock().unwrap() = (status, headers);
        let outgoing = request("GET", "/redirect").body(nothing()).unwrap();
        let answer = send(&hub.exchanges, outgoing).await;
        let header = |name| {
            answer
                .headers()
                .get(name)
                .map(|it| it.to_str().unwrap().to_owned())
        };
        (
            answer.status().as_u16(),
            header("location"),
            header("fairlead-code"),
        )
    };
    for (target, path) in [
        ("/api/v1?a=1", "/api/v1?a=1"),
        ("sibling/?a", "/sibling/?a"),
        ("?a", "/redirect?a"),
        (&format!("{own}/api"), "/api"),
        (&format!("{own}/a/../../b"), "/b"),
    ] {
        for status in [201, 301, 307, 308] {
            let passed = (status, Some(path.to_owned()), None);
            assert_eq!(redirect(status, target).await, passed, "{status} {target}");
        }
    }
    let http = own.replace("https", "http");
    for target in [
        "https://evil.test/",
        "https://127.0.0.1/",
        &http,
        "//evil.test/",
        "/\\evil.test/",
        "//",
        &own.replace("127", "user@127"),
        "javascript:alert(1)",
        "",
    ] {
        let (status, location, code) = redirect(302, target).await;
        if target.is_empty() {
            // An empty reference means the requested URL itself (RFC 3986, section 5.2.2).
            assert_eq!((status, location.as_deref()), (302, Some("/redirect")));
            continue;
        }
        let refused = (502, None, Some("FL-1507".to_owned()));
        assert_eq!((status, location, code), refused, "{target}");
        assert_eq!(redirect(201, target).await, (201, None, None), "{target}");
    }
}

#[tokio::test]
async fn disallowed_user_or_group_does_not_reach_the_api_server() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let system = request("GET", "/system").header("fairlead-group", "system:masters");
    let twice = request("GET", "/twice").header("fairlead-user", "fairlead:bob");
    let nobody = Request::get("/nobody").header("host", "cluster");
    for (path, outgoing) in [("/system", system), ("/twice", twice), ("/nobody", nobody)] {
        let answer = send(&hub.exchanges, outgoing.body(nothing()).unwrap()).await;
        assert_eq!(answer.status(), 403);
        assert_eq!(answer.headers()["fairlead-code"], "FL-1501");
        assert!(
            answer.headers()["content-type"]
                .to_str()
                .unwrap()
                .starts_with("text/plain")
        );
        assert!(!body(answer).await.is_empty());
        assert!(!rig.api.saw(path));
    }
    let allowed = request("GET", "/allowed").header("fairlead-group", "ops");
    assert_eq!(
        send(&hub.exchanges, allowed.body(nothing()).unwrap())
            .await
            .status(),
        200
    );
    assert_eq!(
        rig.api.last("/allowed").all("impersonate-group").last(),
        Some(&"ops")
    );
}

#[tokio::test]
async fn path_out_of_the_base_path_is_rejected() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    for path in ["/a/../b", "/a/%2e%2E/b", "/a/./b", "/.."] {
        let answer = send(&hub.exchanges, get(path)).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["fairlead-code"]),
            (400, &"FL-1303".parse().unwrap())
        );
    }
    assert_eq!(
        send(&hub.exchanges, get("/a/..b/c...d/%2efoo"))
            .await
            .status(),
        200
    );
}

#[tokio::test]
async fn answer_passes_unchanged_except_fairlead_headers() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let answer = send(&hub.exchanges, get("/teapot")).await;
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.headers()["x-its-own"], "1");
    assert!(
        answer.headers().get("fairlead-code").is_none(),
        "an API server cannot set headers of the agent"
    );
    assert!(answer.headers().get("x-hop").is_none());
    assert_eq!(body(answer).await, "short and stout");
}

#[tokio::test]
async fn answer_without_a_body_keeps_its_length_and_connection() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    for _ in 0..3 {
        let answer = send(
            &hub.exchanges,
            request("HEAD", "/echo").body(nothing()).unwrap(),
        )
        .await;
        assert_eq!(answer.headers()["content-length"], "5");
        assert_eq!(body(answer).await, "");
        let answer = send(&hub.exchanges, get("/unchanged")).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["etag"]),
            (304, &"\"7\"".parse().unwrap())
        );
        body(answer).await;
    }
    assert_eq!(rig.api.server.connections(), 1);
}

#[tokio::test]
async fn requests_are_counted_by_outcome_and_gauges_return_to_zero() {
    let rig = Rig::new().await;
    let (agent, hub) = rig.connected().await;
    let value = |name: &str, label: Option<&str>| {
        let families = agent.process.registry().gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        let metric = family.get_metric().iter().find(|metric| {
            label.is_none_or(|label| metric.get_label().iter().any(|pair| pair.value() == label))
        });
        metric.map_or(0.0, |metric| {
            metric.get_gauge().get_value() + metric.get_counter().get_value()
        })
    };
    let mut raw = exec(&hub, "/exec").await;
    send(&hub.exchanges, get("/.fairlead/probe")).await;
    body(send(&hub.exchanges, get("/echo")).await).await;
    let system = request("GET", "/x").header("fairlead-group", "system:masters");
    send(&hub.exchanges, system.body(nothing()).unwrap()).await;
    for (outcome, times) in [
        ("upgraded", 1.0),
        ("probed", 1.0),
        ("answered", 1.0),
        ("refused", 1.0),
        ("unreachable", 0.0),
    ] {
        assert_eq!(
            value("fairlead_agent_requests_total", Some(outcome)),
            times,
            "{outcome}"
        );
    }
    assert_eq!(value("fairlead_agent_connected", None), 1.0);
    assert_eq!(value("fairlead_agent_links", Some("up")), 1.0);
    assert_eq!(value("fairlead_agent_links_desired", None), 1.0);
    assert!(value("fairlead_agent_bytes_total", Some("in")) > 0.0);
    assert!(value("fairlead_agent_bytes_total", Some("out")) > 0.0);
    assert!(value("fairlead_agent_streams_open", None) >= 2.0);
    assert!(value("fairlead_agent_dials_total", Some("ok")) >= 2.0);
    assert!(value("fairlead_certificate_expiry_timestamp_seconds", None) > 1.7e9);
    raw.shutdown().await.unwrap();
    soon(raw.read_to_end(&mut Vec::new())).await.unwrap();
    drop((raw, hub));
    rig.hub.cut();
    until(|| value("fairlead_agent_streams_open", None) == 0.0).await;
}

#[tokio::test]
async fn connections_to_the_api_server_are_reused() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    for _ in 0..20 {
        body(send(&hub.exchanges, get("/echo")).await).await;
    }
    assert_eq!(rig.api.server.connections(), 1);
}

#[tokio::test]
async fn connection_closed_by_the_api_server_fails_no_request() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    for _ in 0..3 {
        // A POST, which must not be sent twice.
        let outgoing = request("POST", "/upload").body(text("four")).unwrap();
        assert_eq!(
            body(send(&hub.exchanges, outgoing).await).await,
            "4 bytes, 0 trailers"
        );
        rig.api.server.close_idle();
        until(|| rig.api.server.connections() == 0).await;
    }
}

#[tokio::test]
async fn bodies_and_trailers_stream_both_ways() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("1"));
    let frames = (0..64).map(|_| Ok::<_, BodyError>(Frame::data(Bytes::from(vec![7; 16 * 1024]))));
    let frames = frames
        .chain([Ok(Frame::trailers(trailers))])
        .collect::<Vec<_>>();
    let upload = StreamBody::new(stream::iter(frames)).boxed_unsync();
    let outgoing = request("POST", "/upload")
        .header("trailer", "x-sum")
        .body(upload)
        .unwrap();
    assert_eq!(
        body(send(&hub.exchanges, outgoing).await).await,
        "1048576 bytes, 1 trailers"
    );
    let outgoing = request("GET", "/checksum")
        .header("te", "trailers")
        .body(nothing())
        .unwrap();
    let whole = send(&hub.exchanges, outgoing)
        .await
        .into_body()
        .collect()
        .await
        .unwrap();
    assert_eq!(whole.trailers().unwrap()["x-sum"], "42");
}

#[tokio::test]
async fn early_answer_arrives_during_the_upload() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let (sender, mut upload) = mpsc::channel::<Result<Frame<Bytes>, BodyError>>(1);
    let upload = StreamBody::new(stream::poll_fn(move |cx| upload.poll_recv(cx))).boxed_unsync();
    sender
        .send(Ok(Frame::data(Bytes::from("begin"))))
        .await
        .unwrap();
    let answer = send(
        &hub.exchanges,
        request("POST", "/too-large").body(upload).unwrap(),
    )
    .await;
    assert_eq!(answer.status(), 413);
    assert_eq!(body(answer).await, "too large");
    drop(sender);
    assert_eq!(send(&hub.exchanges, get("/echo")).await.status(), 200);
}

#[tokio::test]
async fn watch_streams_events_and_ends_when_abandoned() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let mut watch = send(&hub.exchanges, get("/watch?watch=true"))
        .await
        .into_body();
    for event in ["one", "two"] {
        rig.api.script.events.send_replace(event.to_owned());
        let frame = soon(watch.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
    }
    drop(watch);
    until(|| rig.api.script.watches.load(SeqCst) == 0).await;
}

#[tokio::test]
async fn abandoned_request_ends_at_the_api_server() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let exchanges = hub.exchanges.clone();
    let waiting = tokio::spawn(async move { exchanges.send(get("/silent")).await.map(drop) });
    until(|| rig.api.saw("/silent")).await;
    waiting.abort();
    until(|| rig.api.server.connections() == 0).await;
}

#[tokio::test]
async fn broken_answer_is_never_a_clean_end() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let answer = send(&hub.exchanges, get("/breaks")).await;
    assert_eq!(answer.status(), 200);
    let mut half = answer.into_body();
    assert_eq!(
        soon(half.frame())
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap(),
        "half"
    );
    rig.api.script.events.send_replace("break".to_owned());
    assert!(soon(half.frame()).await.unwrap().is_err());
}

#[tokio::test]
async fn probe_reads_readyz_with_the_agents_own_token() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let probe = || {
        Request::get("/.fairlead/probe")
            .header("host", "cluster")
            .header("fairlead-spread-millis", "100")
    };
    let answer = send(&hub.exchanges, probe().body(nothing()).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let seen = rig.api.last("/readyz");
    assert_eq!(seen.all("authorization"), ["Bearer token-1"]);
    assert!(seen.all("impersonate-user").is_empty());

    rig.api.script.unready.store(true, SeqCst);
    let answer = send(&hub.exchanges, probe().body(nothing()).unwrap()).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["fairlead-code"]),
        (502, &"FL-1502".parse().unwrap())
    );
    assert!(
        body(answer)
            .await
            .contains("/readyz answered 500: [-]etcd failed")
    );
}

#[tokio::test]
async fn unreachable_api_server_has_its_own_code_and_cause() {
    let mut rig = Rig::new().await;
    rig.api.server.stop_listening().await;
    let (_agent, hub) = rig.connected().await;
    for path in ["/echo", "/.fairlead/probe"] {
        let answer = send(&hub.exchanges, get(path)).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["fairlead-code"]),
            (502, &"FL-1502".parse().unwrap())
        );
        let cause = body(answer).await;
        assert!(
            cause.contains("refused") && cause.contains(&rig.api.port().to_string()),
            "{cause}"
        );
    }
}

#[tokio::test]
async fn post_keeps_its_content_length() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let outgoing = request("POST", "/upload")
        .header("content-length", "4")
        .body(text("four"))
        .unwrap();
    assert_eq!(
        body(send(&hub.exchanges, outgoing).await).await,
        "4 bytes, 0 trailers"
    );
    assert_eq!(rig.api.last("/upload").all("content-length"), ["4"]);
}
