//! Delivery to real sockets: syslog servers, and HTTP servers that fail at times.

use std::{fs, path::Path, time::Duration};

use fairlead_runtime::Process;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixDatagram},
    sync::mpsc,
    time::timeout,
};

use super::*;
use crate::{
    AuditLog, AuditWriter, JournalSettings, OnFull, RequestHead, RequestParty, RequestResult,
};

const TEST_DEADLINE: Duration = Duration::from_secs(20);

fn log(dir: &Path) -> AuditWriter {
    AuditLog::open(
        JournalSettings::of(dir.to_owned(), "hub".to_owned()),
        OnFull::Refuse,
    )
    .unwrap()
}

fn report(log: &AuditLog, number: usize) {
    let head = RequestHead {
        id: &format!("{number:016x}"),
        method: "GET",
        path: "/v1/whoami",
        query: None,
        from: "192.0.2.1:4000".parse().unwrap(),
    };
    log.end_of(&head, &RequestParty::default(), &RequestResult::default());
}

fn start(log: &AuditLog, config: &str) -> Process {
    let process = Process::new();
    let config = AuditConfig::parse(config).unwrap();
    Sinks::open(&config, "https://hub.test")
        .unwrap()
        .start(log, &process);
    process
}

#[tokio::test]
async fn syslog_over_tcp_has_octet_counts() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(folder.path());
    report(&writer.log(), 1);
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    start(
        &writer.log(),
        &format!("[syslog.a]\naddress = \"tcp://{address}\""),
    );
    let (mut stream, _) = timeout(TEST_DEADLINE, server.accept())
        .await
        .unwrap()
        .unwrap();
    for kind in ["\"kind\":\"segment\"", "\"id\":\"0000000000000001\""] {
        let mut length = String::new();
        loop {
            match stream.read_u8().await.unwrap() {
                b' ' => break,
                digit => length.push(char::from(digit)),
            }
        }
        let mut message = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut message).await.unwrap();
        let message = String::from_utf8(message).unwrap();
        assert!(message.starts_with("<110>1 20"), "{message}");
        assert!(
            message.contains(" hub.test fairlead - audit - {"),
            "{message}"
        );
        assert!(message.contains(kind), "{message}");
    }
}

#[tokio::test]
async fn syslog_over_a_unix_socket_has_one_event_per_datagram() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let server = UnixDatagram::bind(&path).unwrap();
    let writer = log(&folder.path().join("audit"));
    report(&writer.log(), 1);
    start(
        &writer.log(),
        &format!("[syslog.a]\naddress = \"unix://{}\"", path.display()),
    );
    let mut buffer = vec![0; 65536];
    for _ in 0..2 {
        let length = timeout(TEST_DEADLINE, server.recv(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(buffer[..length].starts_with(b"<110>1 "));
    }
}

/// Reads one request with a length; returns its head and body.
async fn request(stream: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// An HTTP server that answers with these statuses, then always 200; accepted bodies are sent on.
async fn server(mut statuses: Vec<u16>) -> (String, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel(100);
    statuses.reverse();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = request(&mut stream).await;
            let status = statuses.pop().unwrap_or(200);
            let answer =
                format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            if status == 200 {
                let _ = sender.send(request).await;
            }
        }
    });
    (url, receiver)
}

#[tokio::test]
async fn webhook_gets_each_event_once_over_failures_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let dir = folder.path().join("audit");
    let writer = log(&dir);
    for number in 0..10 {
        report(&writer.log(), number);
    }
    let (url, mut received) = server(vec![500, 413]).await;
    let config = format!(
        "[webhook.a]\nurl = \"{url}\"\nbatch = 4\ntoken-file = \"{}\"",
        token.display()
    );
    let process = start(&writer.log(), &config);
    let mut sequence: Vec<u64> = Vec::new();
    let mut take = async |until: u64, sequence: &mut Vec<u64>| {
        while sequence.last() != Some(&until) {
            let (head, body) = timeout(TEST_DEADLINE, received.recv())
                .await
                .unwrap()
                .unwrap();
            assert!(head.contains("authorization: bearer secret"), "{head}");
            assert!(head.contains("fairlead-hub: https://hub.test"), "{head}");
            let events = body.lines().map(serde_json::from_str::<crate::AuditEvent>);
            sequence.extend(events.map(|event| event.unwrap().seq));
        }
    };
    take(11, &mut sequence).await;
    process.start_drain();
    assert!(process.finish(TEST_DEADLINE).await);
    for number in 10..15 {
        report(&writer.log(), number);
    }
    start(&writer.log(), &config);
    take(16, &mut sequence).await;
    assert_eq!(sequence, (1..=16).collect::<Vec<_>>());
}

#[tokio::test]
async fn otlp_has_log_records() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(folder.path());
    report(&writer.log(), 1);
    let (url, mut received) = server(Vec::new()).await;
    start(
        &writer.log(),
        &format!("[otlp.a]\nurl = \"{url}\"\nbatch = 1"),
    );
    for _ in 0..2 {
        let (_, body) = timeout(TEST_DEADLINE, received.recv())
            .await
            .unwrap()
            .unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let record = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert!(
            record["timeUnixNano"].as_str().unwrap().len() == 19,
            "{record}"
        );
        assert!(
            record["body"]["stringValue"]
                .as_str()
                .unwrap()
                .contains("\"hash\":")
        );
    }
}
