use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use fairlead_runner::{Refusal, RunFile};
use serde_json::{Value, json};

use super::fixture::{self, Rig, eventually, key, refusal, upgrade};

/// Sends a request as it is, and returns status and body.
fn raw(rig: &Rig, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let mut stream = UnixStream::connect(rig.client.socket()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn framed(head: &Value, contents: &[u8]) -> Vec<u8> {
    let head = head.to_string().into_bytes();
    let mut body = u32::try_from(head.len()).unwrap().to_be_bytes().to_vec();
    body.extend(head);
    body.extend(contents);
    body
}

fn head(script: &str) -> Value {
    let (request, files) = upgrade(script);
    let mut head = serde_json::to_value(request).unwrap();
    let entry = |file: &RunFile| json!({"path": file.path, "size": file.content.len()});
    head["files"] = files.iter().map(entry).collect();
    head
}

#[tokio::test]
async fn paths_outside_of_the_folder_are_refused() {
    let rig = Rig::start().await;
    let run = format!("/v1/runs/{}", key(1));
    for bad in ["../evil", "/tmp/evil", "chart/../../evil", "a//b", ".", ""] {
        let mut head = head("exit 0");
        head["files"][0]["path"] = json!(bad);
        let (status, answer) = raw(&rig, "PUT", &run, &framed(&head, b"name: shopexit 0"));
        assert_eq!(status, 400, "{bad:?}: {answer}");
    }
    for collision in ["values.yaml", "chart"] {
        let mut head = head("exit 0");
        head["files"][1]["path"] = json!(collision);
        head["files"][0]["path"] = json!(if collision == "chart" {
            "chart/x"
        } else {
            "values.yaml"
        });
        head["operation"]["upgradeInstall"]["chart"] = json!(collision);
        head["operation"]["upgradeInstall"]["values"] = json!([]);
        let (status, answer) = raw(&rig, "PUT", &run, &framed(&head, b"name: shopexit 0"));
        assert!(status == 400 || status == 500, "{answer}");
    }
    for path in [
        "/v1/runs/..%2f..%2fetc",
        "/v1/runs/x",
        "/v1/runs/../info",
        "/v2/info",
        "/",
    ] {
        assert_eq!(raw(&rig, "GET", path, b"").0, 400, "{path}");
    }
    assert_eq!(rig.client.info().await.unwrap().running, 0);
    assert_eq!(
        std::fs::read_dir(rig.work().join("runs")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn programs_outside_of_the_table_are_refused() {
    let rig = Rig::start().await;
    for program in ["sh", "/bin/sh", "../helm", "tofu", ""] {
        let (mut request, files) = upgrade("exit 0");
        request.program = program.into();
        let refused = rig.client.start(&key(1), request, files).await;
        assert_eq!(refusal(refused), Refusal::UnknownProgram(program.into()));
    }
}

#[tokio::test]
async fn messages_that_are_cut_or_too_long_start_nothing() {
    let rig = Rig::start().await;
    let run = format!("/v1/runs/{}", key(1));
    let whole = framed(&head("exit 0"), b"name: shopexit 0");
    for len in [0, 3, 4, 100, whole.len() - 1] {
        assert_eq!(raw(&rig, "PUT", &run, &whole[..len]).0, 400, "{len}");
    }
    let longer = [&whole[..], b"x"].concat();
    assert_eq!(raw(&rig, "PUT", &run, &longer).0, 400);
    let mut huge = whole.clone();
    huge[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(raw(&rig, "PUT", &run, &huge).0, 413);
    let mut large = head("exit 0");
    large["files"][0]["size"] = json!(65 << 20);
    assert_eq!(raw(&rig, "PUT", &run, &framed(&large, b"")).0, 413);
    // A client that leaves in the middle gives its place back.
    for _ in 0..4 {
        let mut stream = UnixStream::connect(rig.client.socket()).unwrap();
        let head = format!(
            "PUT {run} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            whole.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&whole[..whole.len() - 1]).unwrap();
    }
    eventually(async || {
        let (request, files) = upgrade("exit 0");
        let started = rig.client.start(&key(1), request, files).await;
        started.is_ok()
    })
    .await;
    assert!(rig.ended(1).await.ending().unwrap().is_success());
}

#[tokio::test]
async fn socket_and_its_folder_are_private() {
    let rig = Rig::start().await;
    assert_eq!(fixture::mode(rig.client.socket()), 0o600);
    assert_eq!(fixture::mode(rig.client.socket().parent().unwrap()), 0o700);
    assert_eq!(fixture::mode(&rig.work()), 0o700);
}

#[tokio::test]
async fn many_connections_leave_the_runner_usable() {
    let rig = Rig::start().await;
    let silent: Vec<_> = (0..12)
        .map(|_| UnixStream::connect(rig.client.socket()).unwrap())
        .collect();
    rig.run(1, "exit 0").await;
    assert!(rig.ended(1).await.ending().unwrap().is_success());
    drop(silent);
}
