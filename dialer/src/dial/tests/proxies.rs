//! Dialling through a proxy, and the errors of one that refuses or is dead.

use super::*;

/// A proxy that answers each CONNECT with the given head, or (`None`) by connecting. It stores the
/// request.
async fn proxy(answer: Option<&'static str>) -> (ProxyRules, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(String::new()));
    let saw = seen.clone();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(tunnel(tcp, answer, saw.clone()));
        }
    });
    let url = format!("http://user:pass%20word@127.0.0.1:{port}");
    (ProxyRules::parse(Some(&url), None).unwrap(), seen)
}

/// As [`proxy`], behind TLS with this certificate.
async fn tls_proxy(tls: Arc<rustls::ServerConfig>) -> (ProxyRules, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(String::new()));
    let saw = seen.clone();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            if let Ok(tls) = TlsAcceptor::from(tls.clone()).accept(tcp).await {
                tokio::spawn(tunnel(tls, None, saw.clone()));
            }
        }
    });
    let url = format!("https://user:p%40ss@localhost:{port}");
    (ProxyRules::parse(Some(&url), None).unwrap(), seen)
}

async fn tunnel<IO>(mut io: IO, answer: Option<&'static str>, saw: Arc<Mutex<String>>)
where
    IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = io.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    *lock(&saw) = head;
    if let Some(answer) = answer {
        io.write_all(answer.as_bytes()).await.unwrap();
        return;
    }
    let (_, port) = target.split_once(':').unwrap();
    let mut hub = TcpStream::connect(format!("127.0.0.1:{port}"))
        .await
        .unwrap();
    let established = b"HTTP/1.1 200 Connection established\r\nvia: 1.1 corp\r\n\r\n";
    io.write_all(established).await.unwrap();
    let _ = copy_bidirectional(&mut io, &mut hub).await;
}

#[tokio::test]
async fn proxy_with_tls_gets_its_credentials_inside_of_it() {
    let (url, mut accepted) = hub(|_| {}).await;
    let url: HubUrl = format!("https://hub.test:{}", url.port()).parse().unwrap();
    let (rules, seen) = tls_proxy(hub_outer()).await;
    assert!(rules.needs_proxy_tls(&url));
    let dialer = dialer(rules);
    let dialed = dialer.dial(&url, agent_inner(&OURS, Some(&OURS))).await;
    dialed.unwrap();
    accepted.recv().await.unwrap().unwrap();
    let authorization = "proxy-authorization: Basic dXNlcjpwQHNz\r\n";
    assert!(lock(&seen).contains(authorization));
    let stages: Vec<_> = dialer.trace.passed_stages();
    let names: Vec<_> = stages.iter().map(|it| it.stage.as_str()).collect();
    let expected = ["dns", "tcp", "proxy", "tls", "upgrade", "link", "identity"];
    assert_eq!(names, expected);
    assert!(stages[2].detail.ends_with(", via 1.1 corp"), "{stages:?}");
}

#[tokio::test]
async fn untrusted_proxy_with_tls_gets_no_credentials() {
    let (rules, seen) = tls_proxy(hub_outer()).await;
    let mut dialer = dialer(rules);
    dialer.outer = agent_outer(&FOREIGN);
    let url = "https://hub.test".parse().unwrap();
    let error = dialer.dial(&url, agent_inner(&OURS, None)).await.err();
    let error = error.unwrap();
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Proxy, Code::DialProxy)
    );
    assert!(error.next_step().contains("--ca-file"), "{error:?}");
    assert!(lock(&seen).is_empty());
}

#[tokio::test]
async fn proxy_gets_connect_with_basic_credentials() {
    let (url, mut accepted) = hub(|_| {}).await;
    let url: HubUrl = format!("https://hub.test:{}", url.port()).parse().unwrap();
    let (rules, seen) = proxy(None).await;
    let dialed = dialer(rules)
        .dial(&url, agent_inner(&OURS, Some(&OURS)))
        .await
        .unwrap();
    accepted.recv().await.unwrap().unwrap();
    assert_ne!(dialed.address.port(), url.port());
    let head = lock(&seen).clone();
    let line = format!("CONNECT {} HTTP/1.1\r\n", url.authority());
    assert!(head.starts_with(&line), "{head}");
    assert!(
        head.contains(&format!("host: {}\r\n", url.authority())),
        "{head}"
    );
    assert!(
        head.contains("proxy-authorization: Basic dXNlcjpwYXNzIHdvcmQ=\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn proxy_refusals_have_distinct_codes() {
    let table = [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
            Code::DialProxyAuth,
            Some(407),
        ),
        (
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 4\r\n\r\nno: ",
            Code::DialProxy,
            Some(403),
        ),
        ("HTTP/1.1 200 OK\r\n\r\nsurprise", Code::DialProxy, None),
        ("SSH-2.0-OpenSSH_9\r\n", Code::DialProxy, None),
    ];
    for (answer, code, status) in table {
        let (rules, _seen) = proxy(Some(answer)).await;
        let error = dialer(rules)
            .dial(
                &"https://hub.invalid".parse().unwrap(),
                agent_inner(&OURS, None),
            )
            .await
            .err()
            .unwrap();
        assert_eq!(
            (error.stage, error.code, error.http_status),
            (DialStage::Proxy, code, status)
        );
        assert!(!error.to_string().contains("pass"));
    }
}

async fn refused_by(proxy: &ProxyRules) -> DialError {
    let hub = "https://hub.invalid".parse().unwrap();
    let inner = agent_inner(&OURS, None);
    dialer(proxy.clone()).dial(&hub, inner).await.err().unwrap()
}

#[tokio::test]
async fn dead_proxy_is_named_without_its_password() {
    // Bound, so that nothing else listens there, but not listening.
    let dead = tokio::net::TcpSocket::new_v4().unwrap();
    dead.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = dead.local_addr().unwrap();
    for place in [address.to_string(), "no-such-proxy.invalid:3128".to_owned()] {
        let url = format!("http://user:secret@{place}");
        let error = refused_by(&ProxyRules::parse(Some(&url), None).unwrap()).await;
        assert_eq!(
            (error.stage, error.code),
            (DialStage::Proxy, Code::DialProxy)
        );
        assert!(error.cause.contains(&format!("http://{place}")), "{error}");
        assert!(error.next_step().contains("HTTPS_PROXY"), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn proxy_without_basic_authentication_is_reported_with_its_schemes() {
    for (offers, basic) in [
        (
            "proxy-authenticate: NTLM\r\nproxy-authenticate: Negotiate\r\n",
            false,
        ),
        ("proxy-authenticate: Negotiate, NTLM\r\n", false),
        (
            "proxy-authenticate: NTLM\r\nproxy-authenticate: Basic realm=\"a, b\"\r\n",
            true,
        ),
        ("proxy-authenticate: Negotiate, basic realm=x\r\n", true),
        ("", true),
    ] {
        let answer = format!("HTTP/1.1 407 Who are you\r\n{offers}content-length: 0\r\n\r\n");
        let (rules, _seen) = proxy(Some(answer.leak())).await;
        let error = refused_by(&rules).await;
        assert_eq!(error.code, Code::DialProxyAuth);
        assert_eq!(error.cause.contains("NTLM"), !basic, "{error}");
        assert_eq!(error.next.is_none(), basic, "{error:?}");
    }
}
