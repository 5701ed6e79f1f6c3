use std::sync::{Arc, Mutex};

use fairlead_dialer::ProxyRules;
use fairlead_testkit::tls::ServerTls;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::*;

/// Heads of requests that a server has received.
type Heads = Arc<Mutex<Vec<String>>>;

/// A hub that answers each connection with the next of these responses, and closes it.
async fn hub(responses: Vec<String>) -> (HubClient, Heads) {
    let ServerTls { server, ca_pem } = ServerTls::new("hub").unwrap();
    let tls = TlsAcceptor::from(server);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let heads = Heads::default();
    let received = Arc::clone(&heads);
    tokio::spawn(async move {
        for response in responses {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut io = tls.accept(tcp).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(io.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            received.lock().unwrap().push(head);
            io.write_all(response.as_bytes()).await.unwrap();
            io.shutdown().await.unwrap();
        }
    });
    let url = url.parse().unwrap();
    let hub = HubClient::new(url, "secret".into(), Some(ca_pem), ProxyRules::default());
    (hub.unwrap(), heads)
}

fn run_id() -> RunId {
    "run-01KB0000000000000000000000".parse().unwrap()
}

fn events(body: &str, is_cut: bool) -> String {
    let end = if is_cut { "" } else { "0\r\n\r\n" };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\n{:x}\r\n{body}\r\n{end}",
        body.len()
    )
}

fn run_in(state: &str) -> String {
    let run = serde_json::json!({
        "id": run_id(), "cluster": "c-a", "bundle": "b-shop", "kind": "sync", "origin": "command",
        "state": state, "attempt": 1, "createdBy": "ann", "logBytes": 9,
    });
    let run = run.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{run}",
        run.len()
    )
}

#[tokio::test]
async fn followed_log_continues_after_its_last_event() {
    let (hub, heads) = hub(vec![
        events("id: 3\nevent: log\ndata: {\"text\":\"ab\\n\"}\n\nid: 9\nevent: log\ndata: {\"te", true),
        events("id: 6\nevent: log\ndata: {\"text\":\"cd\\n\"}\n\n: nothing new\n\n", false),
        run_in("Running"),
        events("id: 9\nevent: log\ndata: {\"text\":\"ef\\n\"}\n\nid: 9\nevent: end\ndata: {\"state\":\"Succeeded\"}\n\n", true),
    ])
    .await;
    let mut text = String::new();
    let mut log = RunLog::new(&hub, run_id(), |_| ());
    let followed = log.follow(|piece| {
        text += piece;
        Ok(true)
    });
    followed.await.unwrap();
    assert_eq!(text, "ab\ncd\nef\n");
    let heads = heads.lock().unwrap();
    let is_first = |head: &String| !head.contains("last-event-id");
    assert!(is_first(&heads[0]), "{heads:?}");
    assert!(heads[1].contains("\r\nlast-event-id: 3\r\n"), "{heads:?}");
    assert!(heads[3].contains("\r\nlast-event-id: 6\r\n"), "{heads:?}");
}

#[tokio::test]
async fn followed_log_ends_with_its_run_and_with_its_reader() {
    let (hub, _) = hub(vec![events("", false), run_in("Expired")]).await;
    let mut log = RunLog::new(&hub, run_id(), |_| ());
    log.follow(|_| Ok(true)).await.unwrap();
    let (hub, _) = self::hub(vec![events(
        "event: log\ndata: {\"text\":\"a\"}\n\n",
        false,
    )])
    .await;
    let mut log = RunLog::new(&hub, run_id(), |_| ());
    log.follow(|_| Ok(false)).await.unwrap();
}

#[tokio::test]
async fn cut_download_continues_at_its_offset() {
    let (hub, heads) = hub(vec![
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nabc".to_owned(),
        "HTTP/1.1 206 Partial Content\r\ncontent-length: 3\r\nconnection: close\r\n\r\ndef"
            .to_owned(),
    ])
    .await;
    let mut text = Vec::new();
    let log = RunLog::new(&hub, run_id(), |_| ());
    let read = log.read(|piece| {
        text.extend_from_slice(piece);
        Ok(true)
    });
    read.await.unwrap();
    assert_eq!(text, b"abcdef");
    let heads = heads.lock().unwrap();
    assert!(heads[1].contains("\r\nrange: bytes=3-\r\n"), "{heads:?}");
}
