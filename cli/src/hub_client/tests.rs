use std::sync::atomic::{AtomicUsize, Ordering};

use fairlead_certs::{Authority, front_server};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::*;

/// Number of responses after which the server closes a connection.
const RESPONSES_PER_CONNECTION: usize = 3;

async fn answer(tls: TlsAcceptor, tcp: TcpStream) {
    let mut io = tls.accept(tcp).await.unwrap();
    for _ in 0..RESPONSES_PER_CONNECTION {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(io.read_u8().await.unwrap());
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";
        io.write_all(answer).await.unwrap();
        io.flush().await.unwrap();
    }
}

#[tokio::test]
async fn requests_share_a_connection_until_the_hub_closes_it() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open_or_create(dir.path()).unwrap();
    let names = ["127.0.0.1".to_owned()];
    let leaf = authority.issue_front(&names, OffsetDateTime::now_utc());
    let tls = TlsAcceptor::from(front_server(&leaf.unwrap()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer(tls.clone(), tcp));
        }
    });
    let ca = Some(authority.certificate_pem().to_owned());
    let url = url.parse().unwrap();
    let hub = HubClient::new(url, "secret".into(), ca, ProxyRules::default()).unwrap();
    for _ in 0..3 * RESPONSES_PER_CONNECTION {
        assert!(hub.get::<bool>("/").await.unwrap());
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

#[test]
fn failure_of_the_hub_is_parsed() {
    let failure = Failure::because(Code::InUse, "3 clusters");
    let body = Reason::from(&failure).to_json();
    assert_eq!(refusal(StatusCode::CONFLICT, &body), failure);
}

#[test]
fn response_of_another_server_is_reported() {
    assert_eq!(
        refusal(StatusCode::BAD_GATEWAY, b"<html>").code,
        Code::HubUnreachable
    );
}
