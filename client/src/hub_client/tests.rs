use std::sync::atomic::{AtomicUsize, Ordering};

use fairlead_api::Reason;
use fairlead_testkit::{
    proxy::FakeProxy,
    tls::{ServerTls, TestCa},
};
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::{calls::error_response, *};

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
    let ServerTls { server, ca_pem } = ServerTls::new("hub").unwrap();
    let tls = TlsAcceptor::from(server);
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
    let url = url.parse().unwrap();
    let hub = HubClient::new(url, "secret".into(), Some(ca_pem), ProxyRules::default()).unwrap();
    for _ in 0..3 * RESPONSES_PER_CONNECTION {
        assert!(hub.get::<bool>("/").await.unwrap());
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

fn client_behind(https_proxy: &str) -> HubClient {
    let rules = ProxyRules::parse(Some(https_proxy), None).unwrap();
    let url = "https://hub.example.test".parse().unwrap();
    HubClient::new(url, "secret".into(), None, rules).unwrap()
}

#[tokio::test]
async fn refusal_of_the_proxy_is_reported_with_its_schemes() {
    let answer = b"HTTP/1.1 407 Who\r\nproxy-authenticate: NTLM\r\ncontent-length: 0\r\n\r\n";
    // The second connection reads the response that reqwest drops.
    let proxy = FakeProxy::answering(answer, 2).await;
    let hub = client_behind(&format!("http://ann:s3cret%21@{}", proxy.address()));
    let failure = Failure::from(hub.get::<bool>("/").await.unwrap_err());
    assert_eq!(failure.code, Code::DialProxyAuth);
    assert!(failure.cause.contains("it takes NTLM only"), "{failure}");
    assert!(!failure.cause.contains("s3cret"), "{failure}");
    proxy.last_request().await;
}

#[tokio::test]
async fn credentials_go_to_the_proxy_with_the_tunnel_request() {
    let proxy = FakeProxy::answering(b"HTTP/1.1 200 OK\r\n\r\n", 1).await;
    let hub = client_behind(&format!("http://ann:s3cret%21@{}", proxy.address()));
    let failure = Failure::from(hub.get::<bool>("/").await.unwrap_err());
    // The proxy has ended before the handshake with the hub.
    assert_eq!(failure.code, Code::DialProxy, "{failure}");
    let head = proxy.last_request().await.to_lowercase();
    assert!(head.starts_with("connect hub.example.test:443 http/1.1\r\n"));
    let expected = "proxy-authorization: basic yw5uonmzy3jldce=\r\n";
    assert!(
        head.contains(expected) && head.contains("user-agent: fairlead/"),
        "{head}"
    );
    assert!(!head.contains("bearer"), "{head}");
}

#[tokio::test]
async fn path_to_another_resource_is_rejected() {
    let url = "https://127.0.0.1:1".parse().unwrap();
    let hub = HubClient::new(url, "secret".into(), None, ProxyRules::default()).unwrap();
    for path in ["/clusters/../tenants", "/clusters/%2e%2e", "/clusters/."] {
        let failure = Failure::from(hub.get::<bool>(path).await.unwrap_err());
        assert!(failure.cause.contains("is no path of the hub"), "{failure}");
    }
    let failure = Failure::from(hub.get::<bool>("/clusters?fact=a%3Db").await.unwrap_err());
    assert_eq!(failure.code, Code::HubUnreachable);
    assert!(
        failure.cause.contains("127.0.0.1:1: Connection refused"),
        "{failure}"
    );
}

#[test]
fn failure_of_the_hub_is_parsed() {
    let failure = Failure::because(Code::InUse, "3 clusters");
    let body = Reason::from(&failure).to_json();
    assert_eq!(error_response(StatusCode::CONFLICT, &body), failure);
}

#[test]
fn response_of_another_server_is_reported() {
    assert_eq!(
        error_response(StatusCode::BAD_GATEWAY, b"<html>").code,
        Code::HubUnreachable
    );
}

#[tokio::test]
async fn hub_with_an_ipv6_address_is_reached_through_the_proxy() {
    let ca = TestCa::new("hub").unwrap();
    let hub = ca.leaf(&["2001:db8::1"]).unwrap().server().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FakeProxy::to(listener.local_addr().unwrap()).await;
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        answer(hub.into(), tcp).await;
    });
    let https_proxy = format!("http://ann:s3cret%21@{}", proxy.address());
    let rules = ProxyRules::parse(Some(&https_proxy), None).unwrap();
    let url = "https://[2001:db8::1]:8443".parse().unwrap();
    let hub = HubClient::new(url, "secret".into(), Some(ca.pem()), rules).unwrap();
    let socket = hub._tunnel.as_ref().unwrap().socket();
    assert!(hub.get::<bool>("/").await.unwrap());
    drop(hub);
    assert!(!socket.exists(), "{}", socket.display());
    let head = proxy.last_request().await.to_lowercase();
    assert!(
        head.starts_with("connect [2001:db8::1]:8443 http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("proxy-authorization: basic "), "{head}");
}
