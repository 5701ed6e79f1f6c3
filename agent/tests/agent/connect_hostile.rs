//! CONNECT requests that two parsers could read in two ways: each is refused, and none reaches a target.

use std::{net::SocketAddr, time::Duration};

use fairlead_testkit::{hub::ConnectedAgent, raw::RawAnswer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use crate::rig::{Agent, Rig, soon};

/// Outcome of a hostile request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// An answer with this code.
    Code(&'static str),
    /// A reset of the stream without an answer: the bytes are no HTTP that has one reading.
    Reset,
}

use Refusal::{Code, Reset};

/// A target that the rules allow, an agent, and the hub's end of its session.
struct TargetRig {
    target: TcpListener,
    address: SocketAddr,
    hub: ConnectedAgent,
    _agent: Agent,
    _rig: Rig,
}

impl TargetRig {
    async fn start() -> Self {
        let rig = Rig::new().await;
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = target.local_addr().unwrap();
        let mut config = rig.config();
        let wide = ["0.0.0.0/0:*", "[::]/0:*", "*.shop:*", "127.0.0.1:*"];
        config.allow_connect = wide.map(str::to_owned).to_vec();
        config.allow_connect.push(address.to_string());
        let agent = rig.start(config);
        TargetRig {
            target,
            address,
            hub: rig.hub.next().await,
            _agent: agent,
            _rig: rig,
        }
    }

    /// Sends these bytes on a stream of its own.
    async fn refusal(&self, sent: &[u8]) -> Option<(u16, String)> {
        let mut stream = self.hub.session.open().await.unwrap();
        stream.write_all(sent).await.unwrap();
        stream.flush().await.unwrap();
        let answer = soon(RawAnswer::read(&mut stream)).await.ok()?;
        let code = answer.header("fairlead-code").unwrap_or("none");
        Some((answer.status, code.to_owned()))
    }

    /// Asserts that the next connection of the target is one of our own: none came before it.
    async fn assert_untouched(&self) {
        let own = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let (_, peer) = self.target.accept().await.unwrap();
        assert_eq!(peer, own.local_addr().unwrap(), "a request has arrived");
    }
}

/// Targets in a CONNECT whose Host is the same; `PORT` is that of an allowed target on 127.0.0.1.
const TARGETS: &[(&str, Refusal)] = &[
    // Paths, URLs, users, several targets.
    ("/127.0.0.1:PORT", Reset),
    ("127.0.0.1:PORT/", Reset),
    ("127.0.0.1:PORT/x", Reset),
    ("127.0.0.1:PORT?x", Reset),
    ("127.0.0.1:PORT#x", Reset),
    ("http://127.0.0.1:PORT", Reset),
    ("https://127.0.0.1:PORT/", Reset),
    ("//127.0.0.1:PORT", Reset),
    ("*", Reset),
    ("user@127.0.0.1:PORT", Code("FL-1524")),
    ("user:password@127.0.0.1:PORT", Code("FL-1524")),
    ("@127.0.0.1:PORT", Code("FL-1524")),
    ("169.254.169.254:80@127.0.0.1:PORT", Code("FL-1524")),
    ("127.0.0.1:PORT,127.0.0.1:PORT", Reset),
    ("127.0.0.1,127.0.0.1:PORT", Code("FL-1524")),
    ("127.0.0.1:PORT:PORT", Reset),
    ("127.0.0.1:PORT 127.0.0.1:PORT", Reset),
    // Bytes that no target has.
    ("127.0.0.1 :PORT", Reset),
    ("127.0.0.1\t:PORT", Reset),
    ("127.0.0.1\0:PORT", Reset),
    ("127.0.0.1:PORT\0", Reset),
    ("127.0.0.1\r:PORT", Reset),
    ("127.0.0.1\n:PORT", Reset),
    ("127.0.0.1\r\n:PORT", Reset),
    ("127.0.0.1\\:PORT", Reset),
    ("b\u{fc}cher.shop:PORT", Reset),
    // Percent-encoded.
    ("127.0.0.1%3APORT", Reset),
    ("127.0.0%2e1:PORT", Reset),
    ("%31%32%37.0.0.1:PORT", Reset),
    ("127.0.0.1%00:PORT", Reset),
    ("127.0.0.1%0d%0a:PORT", Reset),
    ("127.0.0.1%20:PORT", Reset),
    // Ports.
    ("127.0.0.1", Reset),
    ("127.0.0.1:", Reset),
    ("127.0.0.1:0", Code("FL-1524")),
    ("127.0.0.1:0PORT", Code("FL-1524")),
    ("127.0.0.1:+PORT", Code("FL-1524")),
    ("127.0.0.1:-1", Reset),
    ("127.0.0.1:65536", Reset),
    ("127.0.0.1:99999999999999999999", Reset),
    ("127.0.0.1:0x50", Reset),
    ("127.0.0.1:http", Reset),
    // IPv4 addresses of the C library.
    ("127.1:PORT", Code("FL-1524")),
    ("127.0.1:PORT", Code("FL-1524")),
    ("2130706433:PORT", Code("FL-1524")),
    ("0x7f000001:PORT", Code("FL-1524")),
    ("0x7f.0.0.1:PORT", Code("FL-1524")),
    ("0X7F.0.0.1:PORT", Code("FL-1524")),
    ("017700000001:PORT", Code("FL-1524")),
    ("0177.0.0.1:PORT", Code("FL-1524")),
    ("127.0.0.01:PORT", Code("FL-1524")),
    ("127.0.0.1.:PORT", Code("FL-1524")),
    ("127.0.0.0x1:PORT", Code("FL-1524")),
    ("[127.0.0.1]:PORT", Code("FL-1524")),
    // IPv6 forms of it.
    ("[::ffff:127.0.0.1]:PORT", Code("FL-1524")),
    ("[::ffff:7f00:1]:PORT", Code("FL-1524")),
    ("[::FFFF:127.0.0.1]:PORT", Code("FL-1524")),
    ("[0:0:0:0:0:ffff:127.0.0.1]:PORT", Code("FL-1524")),
    ("[::127.0.0.1]:PORT", Code("FL-1524")),
    ("[0:0:0:0:0:0:0:1]:PORT", Code("FL-1524")),
    ("[::1%25lo]:PORT", Code("FL-1524")),
    ("[::1%lo]:PORT", Code("FL-1524")),
    ("[fe80::1%1]:PORT", Code("FL-1524")),
    ("[::1:PORT", Reset),
    ("::1:PORT", Reset),
    // Reserved addresses in their usual spelling.
    ("127.0.0.2:PORT", Code("FL-1523")),
    ("127.0.0.1:1", Code("FL-1523")),
    ("0.0.0.0:PORT", Code("FL-1523")),
    ("169.254.169.254:80", Code("FL-1523")),
    ("[::1]:PORT", Code("FL-1523")),
    ("[::]:PORT", Code("FL-1523")),
    ("[::7f00:1]:PORT", Code("FL-1523")),
    ("[64:ff9b::7f00:1]:PORT", Code("FL-1523")),
    ("[64:ff9b::a9fe:a9fe]:80", Code("FL-1523")),
    ("[2002:7f00:1::]:PORT", Code("FL-1523")),
    ("[fe80::1]:PORT", Code("FL-1523")),
    ("[fd00:ec2::254]:80", Code("FL-1523")),
    // Names.
    ("DB.shop:PORT", Code("FL-1524")),
    ("db.shop.:PORT", Code("FL-1524")),
    (".db.shop:PORT", Code("FL-1524")),
    ("db..shop:PORT", Code("FL-1524")),
    ("-db.shop:PORT", Code("FL-1524")),
    ("*.shop:PORT", Code("FL-1524")),
    ("LOCALHOST:PORT", Code("FL-1524")),
    ("localhost.:PORT", Code("FL-1524")),
];

#[tokio::test]
async fn target_with_two_readings_reaches_nothing() {
    let rig = TargetRig::start().await;
    let port = rig.address.port().to_string();
    let mut wrong = Vec::new();
    for (target, expected) in TARGETS {
        let target = target.replace("PORT", &port);
        let sent = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n");
        let refusal = rig.refusal(sent.as_bytes()).await;
        let is_expected = match (expected, &refusal) {
            (Reset, None) => true,
            (Code("FL-1523"), Some((403, code))) => code == "FL-1523",
            (Code(expected), Some((400, code))) => code == expected,
            _ => false,
        };
        if !is_expected {
            wrong.push((target, refusal));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    rig.assert_untouched().await;
}

/// Rest of a request for an allowed target behind `CONNECT 127.0.0.1:PORT`.
const HEADS: &[&str] = &[
    // Bodies.
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ncontent-length: 5\r\n\r\nhello",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ncontent-length: 0\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ntransfer-encoding: identity\r\n\r\n",
    // Hosts.
    " HTTP/1.1\r\n\r\n",
    " HTTP/1.1\r\nhost: \r\n\r\n",
    " HTTP/1.1\r\nhost: db.shop:5432\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:1\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\nhost: 127.0.0.1:PORT\r\n\r\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT, db.shop:5432\r\n\r\n",
    // Versions and lines.
    " HTTP/1.0\r\nhost: 127.0.0.1:PORT\r\n\r\n",
    " HTTP/2.0\r\nhost: 127.0.0.1:PORT\r\n\r\n",
    "\r\nhost: 127.0.0.1:PORT\r\n\r\n",
    " HTTP/1.1\nhost: 127.0.0.1:PORT\n\n",
    " HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\n folded: x\r\n\r\n",
    " HTTP/1.1 \r\nhost: 127.0.0.1:PORT\r\n\r\n",
];

#[tokio::test]
async fn head_with_two_readings_reaches_nothing() {
    let rig = TargetRig::start().await;
    let port = rig.address.port().to_string();
    let mut wrong = Vec::new();
    for head in HEADS {
        let sent = format!("CONNECT 127.0.0.1:PORT{head}").replace("PORT", &port);
        if let Some(answer) = rig.refusal(sent.as_bytes()).await {
            wrong.push((sent, answer));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    rig.assert_untouched().await;
}

#[tokio::test]
async fn bytes_before_the_answer_reach_nothing() {
    let rig = TargetRig::start().await;
    let address = rig.address;
    for early in ["GET / HTTP/1.1\r\nhost: a\r\n\r\n", "\0", "\r\n"] {
        let sent = format!("CONNECT {address} HTTP/1.1\r\nhost: {address}\r\n\r\n{early}");
        let answer = rig.refusal(sent.as_bytes()).await;
        assert_eq!(answer, None, "{early:?}");
    }
    rig.assert_untouched().await;
}

#[tokio::test]
async fn allowed_target_of_the_same_agent_is_reached() {
    let rig = TargetRig::start().await;
    let address = rig.address;
    let mut stream = rig.hub.session.open().await.unwrap();
    let sent = format!("CONNECT {address} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(sent.as_bytes()).await.unwrap();
    let answer = soon(RawAnswer::read(&mut stream)).await.unwrap();
    assert_eq!(answer.status, 200);
    let (mut peer, _) = rig.target.accept().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    assert_eq!(soon(peer.read_u8()).await.unwrap(), b'x');
    drop(stream);
    let reset = timeout(Duration::from_secs(10), peer.read_u8()).await;
    assert!(reset.unwrap().is_err());
}
