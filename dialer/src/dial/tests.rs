mod proxies;

use std::{
    future::pending,
    sync::{Arc, Mutex},
};

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    Accepted, Arrival, CloseReason, LinkState, Resumable, SessionError,
    accept::{SUBPROTOCOL, upgrade_response},
    accept_resumable,
    limits::MAX_UNAUTHENTICATED_STREAMS,
    link::LinkEnd,
    rig::{
        FOREIGN, OURS, agent_inner, agent_outer, agent_outer_at_any_time, hub_inner, hub_outer,
        stale_hub_outer,
    },
    sync::lock,
};

type HubAnswer = Response<Full<bytes::Bytes>>;
/// `Err(None)` if the agent declined.
type Accepts = mpsc::Receiver<Result<Accepted, Option<DialError>>>;

/// A hub on loopback; `change` may alter its response to the upgrade.
async fn hub(change: impl Fn(&mut HubAnswer) + Send + Sync + 'static) -> (HubUrl, Accepts) {
    hub_with(hub_outer(), change).await
}

async fn hub_with(
    outer: Arc<rustls::ServerConfig>,
    change: impl Fn(&mut HubAnswer) + Send + Sync + 'static,
) -> (HubUrl, Accepts) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (accepts, accepted) = mpsc::channel(4);
    let change = Arc::new(change);
    let known = Resumable::default();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (accepts, change) = (accepts.clone(), change.clone());
            let (known, outer) = (known.clone(), outer.clone());
            tokio::spawn(async move {
                let Ok(tls) = TlsAcceptor::from(outer).accept(tcp).await else {
                    return;
                };
                let service = service_fn(move |mut request: Request<Incoming>| {
                    let mut answer: HubAnswer = match upgrade_response(&request) {
                        Ok(head) => head.map(|()| Full::default()),
                        Err(status) => {
                            let mut refusal = HubAnswer::default();
                            *refusal.status_mut() = status;
                            refusal
                        }
                    };
                    change(&mut answer);
                    let upgrade = hyper::upgrade::on(&mut request);
                    let (accepts, known) = (accepts.clone(), known.clone());
                    tokio::spawn(async move {
                        let Ok(io) = upgrade.await else { return };
                        let (io, limits) = (TokioIo::new(io), Limits::default());
                        match accept_resumable(io, hub_inner(&OURS), limits, &known, pending())
                            .await
                        {
                            Ok(Arrival::New(accepted)) => accepts.send(Ok(accepted)).await.ok(),
                            Ok(Arrival::Resumed) => None,
                            Ok(Arrival::Declined) => accepts.send(Err(None)).await.ok(),
                            Err(error) => accepts.send(Err(Some(error))).await.ok(),
                        };
                    });
                    async move { Ok::<_, std::convert::Infallible>(answer) }
                });
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(tls), service)
                    .with_upgrades()
                    .await;
            });
        }
    });
    let url = format!("https://localhost:{port}").parse().unwrap();
    (url, accepted)
}

fn dialer(proxy: ProxyRules) -> Dialer {
    Dialer {
        outer: agent_outer(&OURS),
        any_time: None,
        proxy,
        limits: Limits::default(),
        trace: DialTrace::default(),
    }
}

async fn dial_error(hub: &HubUrl) -> DialError {
    let dialed = dialer(ProxyRules::default())
        .dial(hub, agent_inner(&OURS, None))
        .await;
    dialed.err().expect("it was let in")
}

#[tokio::test]
async fn agent_and_hub_verify_each_other() {
    let (url, mut accepted) = hub(|_| {}).await;
    let dialed = dialer(ProxyRules::default())
        .dial(&url, agent_inner(&OURS, Some(&OURS)))
        .await
        .unwrap();
    let hub = accepted.recv().await.unwrap().unwrap();
    assert_eq!((dialed.certificates.len(), hub.certificates.len()), (1, 1));
    assert_eq!(dialed.address.port(), url.port());
    assert!(dialed.clock_offset.unwrap().abs() < 60);
    let mut here = dialed.session.open().await.unwrap();
    let mut there = hub.session.accept().await.unwrap();
    here.write_all(b"hello").await.unwrap();
    let mut got = [0; 5];
    there.read_exact(&mut got).await.unwrap();
    dialed.session.close(CloseReason::Done);
    let ended = hub.session.closed().await;
    assert!(matches!(ended, SessionError::Peer(CloseReason::Done)));
}

/// A relay to the hub that can be cut.
async fn relay(to: &HubUrl) -> (HubUrl, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (cut, mut cuts) = mpsc::channel(1);
    let to = to.port();
    tokio::spawn(async move {
        while let Ok((mut agent, _)) = listener.accept().await {
            let mut hub = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut agent, &mut hub) => {}
                _ = cuts.recv() => {}
            }
        }
    });
    let url = format!("https://localhost:{port}").parse().unwrap();
    (url, cut)
}

#[tokio::test]
async fn ipv6_address_in_a_url_is_dialled_and_verified() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        return; // This machine has no IPv6.
    };
    let (url, _accepted) = hub(|_| {}).await;
    let (port, hub) = (listener.local_addr().unwrap().port(), url.port());
    tokio::spawn(async move {
        let (mut agent, _) = listener.accept().await.unwrap();
        let mut hub = TcpStream::connect(("127.0.0.1", hub)).await.unwrap();
        let _ = copy_bidirectional(&mut agent, &mut hub).await;
    });
    let url = format!("https://[::1]:{port}").parse().unwrap();
    let inner = agent_inner(&OURS, Some(&OURS));
    let dialed = dialer(ProxyRules::default()).dial(&url, inner).await;
    assert!(dialed.unwrap().address.is_ipv6());
}

#[tokio::test]
async fn redial_resumes_the_session_or_gets_a_new_one() {
    let (url, mut accepted) = hub(|_| {}).await;
    let (url, cut) = relay(&url).await;
    let dialer = dialer(ProxyRules::default());
    let inner = agent_inner(&OURS, Some(&OURS));
    let agent = dialer.dial(&url, inner.clone()).await.unwrap().session;
    let hub = accepted.recv().await.unwrap().unwrap().session;
    let mut here = agent.open().await.unwrap();
    let mut there = hub.accept().await.unwrap();

    let lost = async |session: &Session| {
        cut.send(()).await.unwrap();
        let down = |state: &LinkState| matches!(state, LinkState::Down { .. });
        drop(session.link().wait_for(down).await.unwrap());
    };
    lost(&agent).await;
    there.write_all(b"still there?").await.unwrap();
    let again = dialer.redial(&url, inner.clone(), &agent).await.unwrap();
    assert!(matches!(again, Redialed::Resumed { .. }));
    let mut got = [0; 12];
    here.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"still there?");

    // Another hub, or the same after a restart, does not know the session.
    lost(&agent).await;
    let (other, mut accepted) = self::hub(|_| {}).await;
    let again = dialer.redial(&other, inner, &agent).await.unwrap();
    let Redialed::New(new) = again else {
        panic!("a session goes on that nobody knows");
    };
    let hub = accepted.recv().await.unwrap().unwrap().session;
    let _stream = new.session.open().await.unwrap();
    assert!(hub.accept().await.is_some());
}

/// Neither end pays for the handshake of an unwanted session.
#[tokio::test]
async fn resume_of_an_unknown_session_is_declined() {
    let (url, mut accepted) = hub(|_| {}).await;
    let (url, cut) = relay(&url).await;
    let dialer = dialer(ProxyRules::default());
    let inner = agent_inner(&OURS, Some(&OURS));
    let agent = dialer.dial(&url, inner).await.unwrap().session;
    let _hub = accepted.recv().await.unwrap().unwrap();
    cut.send(()).await.unwrap();
    let down = |state: &LinkState| matches!(state, LinkState::Down { .. });
    drop(agent.link().wait_for(down).await.unwrap());

    let (other, mut at_other) = self::hub(|_| {}).await;
    let asked = dialer.resume(&other, &agent).await.unwrap();
    assert!(matches!(asked, Redialed::Unknown { .. }));
    let declined = at_other.recv().await.unwrap().err().expect("a session");
    assert!(declined.is_none(), "{declined:?}");
    let again = dialer.resume(&url, &agent).await.unwrap();
    assert!(matches!(again, Redialed::Resumed { .. }));
    assert!(agent.is_up());
}

#[tokio::test]
async fn agent_without_certificate_gets_few_streams() {
    let (url, mut accepted) = hub(|_| {}).await;
    let dialed = dialer(ProxyRules::default())
        .dial(&url, agent_inner(&OURS, None))
        .await
        .unwrap();
    let hub = accepted.recv().await.unwrap().unwrap();
    assert!(hub.certificates.is_empty());
    let mut streams = Vec::new();
    for _ in 0..=MAX_UNAUTHENTICATED_STREAMS {
        let mut stream = dialed.session.open().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        streams.push(stream);
    }
    let mut last = streams.pop().unwrap();
    let refused = last.read_u8().await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
    for _ in streams {
        assert!(hub.session.accept().await.is_some());
    }
}

#[tokio::test]
async fn hub_of_another_authority_is_not_trusted() {
    let (url, _accepted) = hub(|_| {}).await;
    let error = dialer(ProxyRules::default())
        .dial(&url, agent_inner(&FOREIGN, Some(&OURS)))
        .await
        .err()
        .unwrap();
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Identity, Code::DialHubIdentity)
    );
    assert!(error.address.unwrap().ends_with(&url.port().to_string()));
}

/// In TLS 1.3 the agent's own handshake has succeeded by then.
#[tokio::test]
async fn agent_of_another_authority_sees_the_refusal() {
    let (url, mut accepted) = hub(|_| {}).await;
    let error = dialer(ProxyRules::default())
        .dial(&url, agent_inner(&OURS, Some(&FOREIGN)))
        .await
        .err()
        .unwrap();
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Identity, Code::DialIdentity),
        "{error}"
    );
    let at_hub = accepted.recv().await.unwrap().err().unwrap().unwrap();
    assert_eq!(at_hub.stage, DialStage::Identity);
}

#[tokio::test]
async fn refused_upgrade_reports_status_and_cause() {
    let (url, _accepted) = hub(|answer| {
        *answer = Response::new(Full::from("come back later\nmore"));
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    })
    .await;
    let error = dial_error(&url).await;
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Upgrade, Code::DialUpgrade)
    );
    assert_eq!(error.http_status, Some(503));
    assert_eq!(
        error.to_string(),
        "upgrade: the answer was 503 Service Unavailable: come back later"
    );
    let evidence = error.refusal.unwrap();
    assert_eq!(evidence.body, "come back later more");
}

#[tokio::test]
async fn page_redirect_and_stripped_upgrade_have_their_next_steps() {
    for (status, word) in [
        (StatusCode::OK, "login page"),
        (StatusCode::MOVED_PERMANENTLY, "redirect"),
        (StatusCode::UPGRADE_REQUIRED, "`Upgrade`"),
    ] {
        let (url, _accepted) = hub(move |answer| {
            *answer = Response::new(Full::from("<html>Please sign in</html>"));
            *answer.status_mut() = status;
            let location = "https://login.example/?session=1".parse().unwrap();
            answer.headers_mut().insert("location", location);
        })
        .await;
        let error = dial_error(&url).await;
        assert_eq!(error.code, Code::DialUpgrade);
        assert!(error.next_step().contains(word), "{error:?}");
        let location = error.refusal.as_ref().unwrap().location.as_deref();
        assert_eq!(location, Some("https://login.example/"));
        assert!(!error.cause.contains("session"), "{error}");
    }
}

#[tokio::test]
async fn foreign_101_response_is_refused() {
    type AnswerChange = fn(&mut HubAnswer);
    let wrong: [AnswerChange; 4] = [
        |answer| drop(answer.headers_mut().remove("sec-websocket-protocol")),
        |answer| {
            drop(
                answer
                    .headers_mut()
                    .insert("sec-websocket-protocol", "chat".parse().unwrap()),
            )
        },
        |answer| {
            drop(
                answer
                    .headers_mut()
                    .insert("sec-websocket-accept", "AAAA".parse().unwrap()),
            )
        },
        |answer| {
            drop(
                answer
                    .headers_mut()
                    .insert("sec-websocket-extensions", "x".parse().unwrap()),
            )
        },
    ];
    for change in wrong {
        let (url, _accepted) = hub(change).await;
        let error = dial_error(&url).await;
        assert_eq!(
            (error.stage, error.code),
            (DialStage::Upgrade, Code::DialProtocol)
        );
    }
    assert_eq!(SUBPROTOCOL, "fairlead.v1");
}

#[tokio::test]
async fn untrusted_outer_certificate_is_a_tls_error() {
    let (url, _accepted) = hub(|_| {}).await;
    let mut dialer = dialer(ProxyRules::default());
    dialer.outer = agent_outer(&FOREIGN);
    let error = dialer
        .dial(&url, agent_inner(&OURS, None))
        .await
        .err()
        .unwrap();
    assert_eq!((error.stage, error.code), (DialStage::Tls, Code::DialTls));
}

/// A listener that reads once, writes `says`, reports that, and keeps the connection open.
async fn stranger(says: &'static [u8]) -> (HubUrl, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tells, heard) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut tcp, _)) = listener.accept().await {
            let _ = tcp.read(&mut [0; 4096]).await;
            let _ = tcp.write_all(says).await;
            let _ = tells.send(()).await;
            kept.push(tcp);
        }
    });
    let url = format!("https://localhost:{port}").parse().unwrap();
    (url, heard)
}

#[tokio::test]
async fn plain_http_peer_is_a_protocol_error() {
    let (url, _heard) = stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = dial_error(&url).await;
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Tls, Code::DialProtocol),
        "{error}"
    );
}

#[tokio::test]
async fn silent_peer_times_out_after_the_handshake_deadline() {
    let (url, mut heard) = stranger(b"").await;
    let late = async {
        heard.recv().await.unwrap();
        tokio::time::pause();
        tokio::time::advance(Limits::default().handshake).await;
    };
    let (error, ()) = tokio::join!(dial_error(&url), late);
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Tls, Code::DialTimeout)
    );
}

#[tokio::test]
async fn unresolvable_name_is_a_dns_error() {
    let error = dial_error(&"https://no-such-host.invalid".parse().unwrap()).await;
    assert_eq!(error.stage, DialStage::Dns);
}

#[tokio::test]
async fn certificate_out_of_date_is_judged_by_the_hubs_clock() {
    for (date, code) in [
        ("Sun, 01 Oct 2000 10:00:00 GMT", Code::DialClock),
        (
            &*httpdate::fmt_http_date(std::time::SystemTime::now()),
            Code::DialTls,
        ),
    ] {
        let date = http::HeaderValue::from_str(date).unwrap();
        let answer = move |answer: &mut HubAnswer| {
            answer.headers_mut().insert("date", date.clone());
        };
        let (url, _accepted) = hub_with(stale_hub_outer(), answer).await;
        let mut dialer = dialer(ProxyRules::default());
        let inner = agent_inner(&OURS, None);
        let blind = dialer.dial(&url, inner.clone()).await.err().unwrap();
        assert_eq!((blind.stage, blind.code), (DialStage::Tls, Code::DialClock));
        dialer.any_time = Some(agent_outer_at_any_time());
        let error = dialer.dial(&url, inner).await.err().unwrap();
        assert_eq!((error.stage, error.code), (DialStage::Tls, code), "{error}");
        assert!(error.next.is_some() && error.address.is_some(), "{error:?}");
        let ahead = error.cause.contains("clock is") && error.cause.contains("ahead of the hub's");
        assert_eq!(ahead, code == Code::DialClock, "{error}");
    }
}

#[tokio::test]
async fn hub_of_other_link_versions_is_a_protocol_error() {
    let end = LinkEnd::Versions {
        theirs_low: 2,
        theirs_high: 3,
        ours_low: 1,
        ours_high: 1,
    };
    let error = DialError::from(end);
    assert_eq!(
        (error.stage, error.code),
        (DialStage::Link, Code::DialProtocol)
    );
    assert!(error.cause.contains("2 to 3"));
}
