//! Runs over the routes of people and agents: a command from its creation to its result.

use fairlead_api::{
    Code,
    resources::{JoinInfo, Role},
};
use fairlead_seam::AgentPeer;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::{
    rig::{Reply, Rig, admin, caller, peer},
    rights::world,
};

/// A hub with the cluster `c-site` of `t-a`, its agent, and the bundle `b-a`.
async fn rig() -> (Rig, AgentPeer) {
    let rig = Rig::new().await;
    world(&rig).await;
    let join: JoinInfo = rig.cluster("site", "t-a").await;
    let (_, identity) = rig.enrolled(&join).await;
    let bundle = json!({ "tenant": "t-a", "source": "s-a", "path": "a" });
    rig.call(&admin(), Method::PUT, "/v1/bundles/b-a", bundle)
        .await
        .good();
    (rig, peer(&identity))
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path)
}

async fn claim(rig: &Rig, agent: &AgentPeer) -> Option<Value> {
    let sent = request(Method::POST, "/agent/v1/claim").body(String::new());
    let reply = rig.agent(agent, sent.unwrap()).await;
    match reply.status {
        StatusCode::NO_CONTENT => None,
        _ => Some(reply.good()),
    }
}

async fn append(
    rig: &Rig,
    agent: &AgentPeer,
    run: &str,
    (attempt, at, text): (u32, usize, &str),
) -> Reply {
    let range = format!("bytes {at}-{}/*", at + text.len() - 1);
    let sent = request(Method::PUT, &format!("/agent/v1/runs/{run}/log"))
        .header(header::CONTENT_RANGE, range)
        .header("fairlead-attempt", attempt)
        .body(text.to_owned());
    rig.agent(agent, sent.unwrap()).await
}

async fn piece(rig: &Rig, agent: &AgentPeer, run: &str, at: usize, text: &str) -> StatusCode {
    let reply = append(rig, agent, run, (1, at, text)).await;
    if reply.status == StatusCode::RANGE_NOT_SATISFIABLE {
        assert_eq!(reply.code(), Code::LogGap);
        assert!(reply.headers.contains_key("fairlead-log-offset"));
    }
    reply.status
}

async fn result(rig: &Rig, agent: &AgentPeer, run: &str, body: Value) -> Reply {
    let sent = request(Method::PUT, &format!("/agent/v1/runs/{run}/result"));
    let sent = sent.body(body.to_string()).unwrap();
    rig.agent(agent, sent).await
}

/// Asserts the code of a refusal, and the sentence of its cause.
#[track_caller]
fn refused(reply: &Reply, code: Code, cause: &str) {
    assert_eq!(reply.status.as_u16(), code.http_status(), "{reply:?}");
    assert_eq!(reply.code(), code);
    assert_eq!(reply.json()["reason"], cause);
    assert_eq!(reply.json()["next"], code.next_step());
}

#[tokio::test]
async fn a_command_goes_to_its_agent_and_back_with_log_and_result() {
    let (rig, agent) = rig().await;
    let who = caller(Role::Tenant, Some("t-a"));
    let path = "/v1/clusters/c-site/deployments/b-a/confirm";
    let created = rig.post(&who, path, Value::Null).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let run = created.good()["id"].as_str().unwrap().to_owned();
    let one = format!("/v1/runs/{run}");
    assert_eq!(created.headers[header::LOCATION], one.as_str());

    let claimed = claim(&rig, &agent).await.unwrap();
    assert_eq!(
        (&claimed["run"], &claimed["confirm"]),
        (&json!(run), &json!(true))
    );
    assert_eq!(claim(&rig, &agent).await, None);
    assert_eq!(piece(&rig, &agent, &run, 5, "later").await, 416);
    assert_eq!(piece(&rig, &agent, &run, 0, "hello \u{e4}\n").await, 200);
    let outcome = json!({ "attempt": 1, "outcome": "Succeeded", "sentence": "4 objects applied", "logBytes": 9 });
    let long = json!({ "attempt": 1, "outcome": "Succeeded", "logBytes": 99 });
    refused(
        &result(&rig, &agent, &run, long).await,
        Code::LogIncomplete,
        &format!("{run}: the log has 9 of 99 bytes"),
    );
    refused(
        &append(&rig, &agent, &run, (1, 6, "other")).await,
        Code::OtherLog,
        &format!("{run}: the byte at offset 6 differs from the stored one"),
    );
    refused(
        &append(&rig, &agent, &run, (2, 9, "late")).await,
        Code::RunStopped,
        &format!("{run}: attempt 2 is not the current one, 1"),
    );
    result(&rig, &agent, &run, outcome.clone()).await.good();
    result(&rig, &agent, &run, outcome).await.good();
    let other = json!({ "attempt": 1, "outcome": "Failed", "logBytes": 9 });
    refused(
        &result(&rig, &agent, &run, other).await,
        Code::OtherResult,
        &format!("{run}: attempt 1 has reported another result before"),
    );

    let shown = rig.get(&who, &one).await.good();
    assert_eq!(
        (&shown["state"], &shown["result"]),
        (&json!("Succeeded"), &json!("4 objects applied"))
    );
    assert_eq!(
        (&shown["logBytes"], &shown["createdBy"]),
        (&json!(9), &json!("tenant-of-t-a"))
    );
    let cancelled = rig.post(&who, &format!("{one}/cancel"), Value::Null).await;
    assert_eq!(cancelled.code(), Code::RunEnded);

    let log = format!("{one}/log");
    assert_eq!(rig.get(&who, &log).await.text, "hello \u{e4}\n");
    let range = (header::RANGE, "bytes=6-7");
    let part = rig
        .with_precondition(&who, Method::GET, &log, range, Value::Null)
        .await;
    assert_eq!(
        (part.status, part.text.as_str()),
        (StatusCode::PARTIAL_CONTENT, "\u{e4}")
    );
    assert_eq!(part.headers[header::CONTENT_RANGE], "bytes 6-7/9");
    let range = (header::RANGE, "bytes=9-");
    let behind = rig
        .with_precondition(&who, Method::GET, &log, range, Value::Null)
        .await;
    assert_eq!(behind.code(), Code::LogRange);
    let events = rig
        .stream(&who, &log, (header::ACCEPT, "text/event-stream"))
        .await;
    let events = events.collect().await.unwrap().to_bytes();
    let expected = "id: 9\nevent: log\ndata: {\"text\":\"hello \u{e4}\\n\"}\n\nid: 9\nevent: end\ndata: {\"state\":\"Succeeded\"}\n\n";
    assert_eq!(events, expected);
}

#[tokio::test]
async fn runs_are_visible_to_their_tenant_and_logs_to_operators() {
    let (rig, agent) = rig().await;
    let body = json!({ "cluster": "c-site", "bundle": "b-a", "kind": "sync" });
    let run = rig.post(&admin(), "/v1/runs", body.clone()).await.good();
    let id = run["id"].as_str().unwrap().to_owned();
    let (one, log) = (format!("/v1/runs/{id}"), format!("/v1/runs/{id}/log"));
    claim(&rig, &agent).await.unwrap();
    piece(&rig, &agent, &id, 0, "x").await;
    for (role, may_read) in [
        (Role::Viewer, false),
        (Role::Operator, true),
        (Role::Tenant, true),
    ] {
        let who = caller(role, Some("t-a"));
        assert_eq!(
            rig.get(&who, &one).await.good()["state"],
            "Leased",
            "{role}"
        );
        let reply = rig.get(&who, &log).await;
        assert_eq!(
            reply.status.is_success(),
            may_read,
            "{role}: {}",
            reply.text
        );
    }
    let stranger = caller(Role::Admin, Some("t-b"));
    let hidden = rig.get(&stranger, &one).await;
    let missing = one.replace(&id, "run-00000000000000000000000000");
    let missing = rig.get(&stranger, &missing).await;
    assert_eq!(
        (hidden.code(), missing.code()),
        (Code::NotFound, Code::NotFound)
    );
    assert_eq!(
        rig.get(&stranger, "/v1/runs").await.good()["items"],
        json!([])
    );
    assert_eq!(
        rig.post(&stranger, "/v1/runs", body).await.code(),
        Code::NoSuchCluster
    );
    let remove = json!({ "cluster": "c-site", "bundle": "b-a", "kind": "remove" });
    assert_eq!(
        rig.post(&admin(), "/v1/runs", remove).await.code(),
        Code::RemovalNotOrdered
    );
}

#[tokio::test]
async fn runs_are_listed_in_pages_by_filter() {
    let (rig, _) = rig().await;
    for _ in 0..5 {
        rig.advance(time::Duration::seconds(1));
        let path = "/v1/clusters/c-site/deployments/b-a/sync";
        rig.post(&admin(), path, Value::Null).await.good();
    }
    let who = caller(Role::Viewer, Some("t-a"));
    let page = rig.get(&who, "/v1/runs?bundle=b-a&limit=2").await;
    let link = page.headers[header::LINK].to_str().unwrap().to_owned();
    let states = |reply: &Value| {
        let items = reply["items"].as_array().unwrap().iter();
        items
            .map(|it| it["state"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&page.good()), ["Queued", "Superseded"]);
    let next = link.split(['<', '>']).nth(1).unwrap();
    assert_eq!(states(&rig.get(&who, next).await.good()).len(), 2);
    let queued = rig
        .get(&who, "/v1/runs?state=Queued&cluster=c-site")
        .await
        .good();
    assert_eq!(states(&queued).len(), 1);
    assert_eq!(
        rig.get(&who, "/v1/runs?state=Asleep").await.code(),
        Code::Invalid
    );
    assert_eq!(
        rig.get(&who, "/v1/runs?limit=0").await.code(),
        Code::Invalid
    );
}

#[tokio::test]
async fn an_agent_reports_runs_of_its_own_cluster_only() {
    let (rig, agent) = rig().await;
    let run = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let path = format!("/agent/v1/runs/{run}");
    let own = |bundle: &str, origin: &str| {
        let body = json!({ "bundle": bundle, "kind": "sync", "origin": origin, "generation": 3, "attempt": 1, "startedAt": "2026-11-21T12:00:00Z" });
        request(Method::PUT, &path).body(body.to_string()).unwrap()
    };
    let taken = rig.agent(&agent, own("b-a", "drift")).await.good();
    assert_eq!(taken, json!({ "logOffset": 0 }));
    assert_eq!(
        rig.agent(&agent, own("b-a", "command")).await.code(),
        Code::Invalid
    );
    let shown = rig.get(&admin(), &format!("/v1/runs/{run}")).await.good();
    assert_eq!(
        (&shown["origin"], &shown["createdBy"]),
        (&json!("drift"), &json!("agent"))
    );
    let join = rig.cluster("other", "t-a").await;
    let (_, identity) = rig.enrolled(&join).await;
    let stranger = peer(&identity);
    assert_eq!(
        rig.agent(&stranger, own("b-a", "drift")).await.code(),
        Code::RunGone
    );
    assert_eq!(piece(&rig, &stranger, run, 0, "x").await, 410);
    let gone = own("b-none", "drift").map(|body| body.replace(run, ""));
    assert_eq!(rig.agent(&stranger, gone).await.code(), Code::RunGone);
    let anonymous = own("b-a", "drift");
    assert_eq!(
        rig.agent(&AgentPeer::Anonymous, anonymous).await.code(),
        Code::EnrolOnly
    );
}

/// Text of a follower's events, and the offsets that they name.
async fn followed(body: axum::body::Body) -> (String, Vec<u64>, bool) {
    let events = body.collect().await.unwrap().to_bytes();
    let events = String::from_utf8(events.to_vec()).unwrap();
    let (mut text, mut offsets, mut has_ended) = (String::new(), Vec::new(), false);
    for event in events.split("\n\n").filter(|it| it.starts_with("id: ")) {
        let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        offsets.push(field("id: ").parse().unwrap());
        let data: Value = serde_json::from_str(field("data: ")).unwrap();
        has_ended = field("event: ") == "end";
        text += data["text"].as_str().unwrap_or_default();
    }
    (text, offsets, has_ended)
}

#[tokio::test]
async fn log_of_100_mb_is_cut_and_three_people_follow_it() {
    const PIECE_BYTES: usize = 64 * 1024;
    const PIECE_COUNT: usize = 1600;
    let (rig, agent) = rig().await;
    let body = json!({ "cluster": "c-site", "bundle": "b-a", "kind": "sync" });
    let run = rig.post(&admin(), "/v1/runs", body).await.good();
    let id = run["id"].as_str().unwrap().to_owned();
    claim(&rig, &agent).await.unwrap();
    let log = format!("/v1/runs/{id}/log");
    let line = |number: usize| format!("{number:>10} {}\n", "x".repeat(PIECE_BYTES - 12));
    let upload = async {
        for number in 0..PIECE_COUNT {
            let at = number * PIECE_BYTES;
            if number % 16 == 5 {
                let early = piece(&rig, &agent, &id, at + PIECE_BYTES, &line(number + 1)).await;
                assert_eq!(early, 416, "a piece before its turn");
            }
            assert_eq!(piece(&rig, &agent, &id, at, &line(number)).await, 200);
            if number % 16 == 9 {
                let again = piece(&rig, &agent, &id, at, &line(number)).await;
                assert_eq!(again, 200, "a repeated piece");
            }
        }
        let end =
            json!({ "attempt": 1, "outcome": "Succeeded", "logBytes": PIECE_COUNT * PIECE_BYTES });
        assert_eq!(result(&rig, &agent, &id, end).await.status, 200);
    };
    let follow = async || {
        let accept = (header::ACCEPT, "text/event-stream");
        followed(rig.stream(&admin(), &log, accept).await).await
    };
    let ((), one, two, three) = tokio::join!(upload, follow(), follow(), follow());
    for (text, offsets, has_ended) in [one, two, three] {
        assert!(has_ended && offsets.is_sorted(), "{offsets:?}");
        assert_eq!(offsets.last(), Some(&((PIECE_COUNT * PIECE_BYTES) as u64)));
        assert!(text.starts_with(&line(0)) && text.ends_with(&line(PIECE_COUNT - 1)));
    }
    let stored = rig.get(&admin(), &log).await.text;
    let cut = PIECE_COUNT * PIECE_BYTES - (1 << 20);
    let mark = format!("\n[... {cut} bytes cut ...]\n");
    assert_eq!(stored.len(), (1 << 20) + mark.len());
    assert!(stored[1 << 19..].starts_with(&mark));
}
