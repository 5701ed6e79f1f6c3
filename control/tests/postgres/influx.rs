//! Several hubs on one database that write facts to InfluxDB.

use std::{io::Read, sync::Arc};

use axum::{Router, body::Bytes, extract::State, routing::post};
use fairlead_facts::{InfluxConfig, InfluxLogin};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    hub::{Rig, admin},
    rig::home,
};

type Lines = Arc<watch::Sender<Vec<String>>>;

/// Accepts all writes.
async fn influx() -> (String, Lines) {
    let lines = Lines::default();
    let app = Router::new().route("/write", post(write));
    let app = app.with_state(Arc::clone(&lines));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(tokio::spawn(async { axum::serve(listener, app).await }));
    (url, lines)
}

async fn write(State(lines): State<Lines>, body: Bytes) -> StatusCode {
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(body.as_ref());
    decoder.read_to_string(&mut text).unwrap();
    lines.send_modify(|all| all.extend(text.lines().map(str::to_owned)));
    StatusCode::NO_CONTENT
}

async fn has(lines: &Lines, fact: &str) -> bool {
    let mut lines = lines.subscribe();
    let lines = lines.wait_for(|all| all.iter().any(|line| line.starts_with(fact)));
    lines.await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_hub_writes_the_facts_it_accepted() {
    let home = home().await;
    let mut hubs = Vec::new();
    for _ in 0..2 {
        let (url, lines) = influx().await;
        let rig = Rig::with(|config| {
            config.store = Some(home.place());
            config.influx = Some(InfluxConfig {
                url: url.parse().unwrap(),
                database: "facts".to_owned(),
                login: InfluxLogin::Nobody,
                ca_pem: None,
                spool: 1 << 20,
                answers: false,
            });
        })
        .await;
        hubs.push((rig, lines));
    }
    let [(one, at_one), (two, at_two)] = hubs.try_into().ok().unwrap();
    let put = async |rig: &Rig, fact: &str| {
        let patch = json!({ "dynamicFacts": { fact: 1 } });
        let path = "/clusters/c-demo";
        rig.call(&admin(), Method::PATCH, path, patch).await.good();
    };
    one.cluster("demo", "t-default").await;
    put(&one, "first").await;
    // The other hub learns of the cluster asynchronously.
    let reached = *one.control.revision().borrow();
    let mut known = two.control.revision();
    known.wait_for(|known| *known >= reached).await.unwrap();
    let process = fairlead_runtime::Process::new();
    for rig in [&one, &two] {
        let modules = rig.control.seam().modules;
        let facts = modules.into_iter().find(|it| it.name() == "facts").unwrap();
        let process = process.clone();
        drop(tokio::spawn(async move { facts.run(process).await }));
    }
    assert!(has(&at_one, "first").await && has(&at_two, "first").await);
    put(&one, "ofone").await;
    known.wait_for(|known| *known > reached).await.unwrap();
    put(&two, "oftwo").await;
    assert!(has(&at_one, "ofone").await && has(&at_two, "oftwo").await);
    put(&one, "last").await;
    assert!(has(&at_one, "last").await);
    // An earlier change of the log would have arrived by now.
    let others = |lines: &Lines, fact: &str| lines.borrow().iter().any(|it| it.starts_with(fact));
    assert!(!others(&at_one, "oftwo"));
    assert!(!others(&at_two, "ofone"));
    process.start_drain();
}
