//! TCP connections as WebSockets over HTTP/2 (RFC 8441), from a client of another implementation.

use std::time::Duration;

use bytes::Bytes;
use fairlead_api::resources::ClusterState;
use fairlead_testkit::{agent::FakeAgent, wait::eventually};
use futures_util::future::select_all;
use h2::{
    Reason, RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
    ext::Protocol,
};
use http::{Method, Request, StatusCode, request::Builder};
use tokio::time::timeout;

use crate::{
    client::{status, until},
    ended::revoke,
    rig::{HUB, Rig, TEST_DEADLINE},
};

const TARGET: &str = "/v1/clusters/c-a/tcp/db.shop:5432";
const HALF_CLOSE: &[u8] = &[0x82, 0];
/// Budget of all sessions for clients that take nothing, in bytes.
const BUDGET_BYTES: usize = 1 << 20;
/// Each leaves at least half of a window of 256 KiB unread, so together they exceed the budget.
const STOPPED_COUNT: usize = 12;
/// Time for megabytes through a tunnel, on a busy machine.
const TRANSFER_DEADLINE: Duration = Duration::from_secs(120);

/// A hub with an agent, and a client's HTTP/2 connection.
struct Http2Rig {
    hub: Rig,
    agent: FakeAgent,
    sender: SendRequest<Bytes>,
}

/// A WebSocket in one stream of the connection.
struct StreamSocket {
    send: SendStream<Bytes>,
    receive: RecvStream,
    /// Received bytes that no frame has taken yet.
    input: Vec<u8>,
}

impl Http2Rig {
    async fn start() -> Self {
        Http2Rig::of(Rig::start()).await
    }

    /// A hub with this memory budget of all sessions, in bytes.
    async fn with_memory(budget: usize) -> Self {
        Http2Rig::of(Rig::with(|config| config.limits.session_memory = budget)).await
    }

    async fn of(hub: Rig) -> Self {
        let agent = FakeAgent::of(hub.access(), "c-a").await;
        status(&hub, ClusterState::Connected).await;
        let tls = hub.connect(HUB, "h2").await;
        let (sender, connection) = h2::client::handshake(tls).await.unwrap();
        tokio::spawn(connection);
        // The setting comes with the first frame of the hub.
        until(async || sender.is_extended_connect_protocol_enabled()).await;
        Http2Rig { hub, agent, sender }
    }

    async fn send(
        &self,
        request: Request<()>,
        is_end: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut sender = self.sender.clone().ready().await.unwrap();
        sender.send_request(request, is_end).unwrap()
    }

    async fn open(&self, target: &str) -> StreamSocket {
        let request = websocket(target).body(()).unwrap();
        let (answer, send) = self.send(request, false).await;
        let answer = timeout(TEST_DEADLINE, answer).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let protocol = &answer.headers()["sec-websocket-protocol"];
        assert_eq!(protocol, "v1.tcp.fairlead.io");
        assert_eq!(answer.headers().get("sec-websocket-accept"), None);
        StreamSocket {
            send,
            receive: answer.into_body(),
            input: Vec::new(),
        }
    }

    /// Status and code of a refusal.
    async fn refusal(&self, request: Builder) -> (u16, String) {
        let (answer, _send) = self.send(request.body(()).unwrap(), false).await;
        let answer = timeout(TEST_DEADLINE, answer).await.unwrap().unwrap();
        let code = answer
            .headers()
            .get("fairlead-code")
            .map(|it| it.to_str().unwrap());
        (answer.status().as_u16(), code.unwrap_or("none").to_owned())
    }

    /// Status of the answer to another request of the same connection.
    async fn whoami(&self) -> StatusCode {
        let request = builder(Method::GET, "/v1/whoami");
        let (answer, _) = self.send(request.body(()).unwrap(), true).await;
        let answer = timeout(TEST_DEADLINE, answer).await.unwrap().unwrap();
        answer.status()
    }

    async fn assert_usable(&self) {
        assert_eq!(self.whoami().await, StatusCode::OK);
    }
}

impl StreamSocket {
    /// Sends a binary message, masked with zeros.
    fn write(&mut self, bytes: &[u8]) {
        let length = u8::try_from(bytes.len()).unwrap();
        let head = [0x82, 0x80 | length, 0, 0, 0, 0];
        let frame = [&head, bytes].concat();
        self.send.send_data(frame.into(), false).unwrap();
    }

    /// Sends a large binary message, masked with zeros.
    fn write_large(&mut self, length: u16) {
        let mut frame = vec![0x82, 0x80 | 126];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.resize(frame.len() + 4 + usize::from(length), 0);
        self.send.send_data(frame.into(), false).unwrap();
    }

    /// Reads to the end of the stream; the reset that ended it, if any.
    async fn reset(&mut self) -> Option<Reason> {
        while let Some(data) = self.data().await {
            if let Err(error) = data {
                return error.reason();
            }
        }
        None
    }

    /// The next bytes; `None` at the end of the stream.
    async fn data(&mut self) -> Option<Result<Bytes, h2::Error>> {
        let data = timeout(TEST_DEADLINE, self.receive.data()).await.unwrap();
        if let Some(Ok(bytes)) = &data {
            let _ = self.receive.flow_control().release_capacity(bytes.len());
        }
        data
    }

    /// Asserts the next frame, and skips nothing.
    async fn expect(&mut self, frame: &[u8]) {
        while self.input.len() < frame.len() {
            let more = self.data().await.expect("more bytes").unwrap();
            self.input.extend_from_slice(&more);
        }
        let found: Vec<u8> = self.input.drain(..frame.len()).collect();
        assert_eq!(found, frame);
    }

    /// Code and reason of a close frame.
    async fn close(&mut self) -> (u16, String) {
        while self.input.len() < 2 || self.input.len() < 2 + usize::from(self.input[1]) {
            let more = self.data().await.expect("a close").unwrap();
            self.input.extend_from_slice(&more);
        }
        assert_eq!(self.input[0], 0x88, "{:?}", self.input);
        let code = u16::from_be_bytes([self.input[2], self.input[3]]);
        (code, String::from_utf8(self.input[4..].to_vec()).unwrap())
    }
}

fn builder(method: Method, path: &str) -> Builder {
    let request = Request::builder().method(method);
    let request = request.uri(format!("https://{HUB}{path}"));
    request.header("authorization", "Bearer good")
}

/// An extended CONNECT that asks for a WebSocket.
fn websocket(path: &str) -> Builder {
    builder(Method::CONNECT, path)
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "other, v1.tcp.fairlead.io")
}

#[tokio::test]
async fn stream_carries_bytes_and_half_closes_beside_others() {
    let rig = Http2Rig::start().await;
    let mut first = rig.open(TARGET).await;
    let mut second = rig.open("/v1/clusters/c-a/tcp/%5Bfd00::1%5D:22").await;
    assert_eq!(rig.agent.saw("CONNECT").await, "CONNECT db.shop:5432");
    assert_eq!(rig.agent.saw("CONNECT").await, "CONNECT [fd00::1]:22");
    first.write(b"one");
    second.write(b"two");
    first.expect(b"\x82\x03one").await;
    second.expect(b"\x82\x03two").await;
    rig.assert_usable().await;
    for mut socket in [first, second] {
        socket.write(b"");
        socket.expect(HALF_CLOSE).await;
        assert_eq!(socket.close().await, (1000, String::new()));
        socket.send.send_data(Bytes::new(), true).unwrap();
        while let Some(rest) = socket.data().await {
            assert!(rest.unwrap().is_empty(), "bytes after the close");
        }
    }
    rig.assert_usable().await;
    until(async || rig.hub.metric("fairlead_upgrades_open", &[]) == 0.0).await;
}

#[tokio::test]
async fn broken_connection_in_the_cluster_closes_its_stream_only() {
    let rig = Http2Rig::start().await;
    let (mut broken, mut other) = (rig.open(TARGET).await, rig.open(TARGET).await);
    broken.write(b"break");
    let (code, reason) = broken.close().await;
    assert!(
        code == 1011 && reason.starts_with("FL-1422: "),
        "{code} {reason}"
    );
    other.write(b"x");
    other.expect(b"\x82\x01x").await;
    rig.assert_usable().await;
}

#[tokio::test]
async fn reset_of_a_stream_is_no_clean_end_in_the_cluster() {
    let rig = Http2Rig::start().await;
    for reason in [Reason::CANCEL, Reason::INTERNAL_ERROR] {
        let mut socket = rig.open(TARGET).await;
        socket.write(b"x");
        socket.expect(b"\x82\x01x").await;
        socket.send.send_reset(reason);
        let inputs = &rig.agent.api.stream_inputs;
        until(async || !inputs.lock().unwrap().is_empty()).await;
        let inputs = std::mem::take(&mut *inputs.lock().unwrap());
        assert_eq!(inputs, ["x (broken)"]);
    }
    // The end of the stream without a close frame is none, either.
    let mut socket = rig.open(TARGET).await;
    socket.send.send_data(Bytes::new(), true).unwrap();
    let inputs = &rig.agent.api.stream_inputs;
    until(async || !inputs.lock().unwrap().is_empty()).await;
    assert_eq!(*inputs.lock().unwrap(), [" (broken)"]);
    rig.assert_usable().await;
}

#[tokio::test]
async fn end_of_access_closes_the_stream_with_its_code() {
    let rig = Http2Rig::start().await;
    let mut socket = rig.open(TARGET).await;
    socket.write(b"x");
    socket.expect(b"\x82\x01x").await;
    revoke(&rig.hub);
    let (code, reason) = socket.close().await;
    assert!(
        code == 1008 && reason.starts_with("FL-1205: "),
        "{code} {reason}"
    );
}

#[tokio::test]
async fn end_of_access_resets_a_stream_whose_client_takes_nothing() {
    let rig = Http2Rig::start().await;
    let mut socket = rig.open(TARGET).await;
    // The echo is larger than the window of the stream, of which the client gives nothing back.
    for _ in 0..8 {
        socket.write_large(32 * 1024);
    }
    let requests = rig.hub.modules.requests.get().unwrap();
    let is_blocked = async || requests.list().iter().any(|it| it.bytes_out > 65_535);
    until(is_blocked).await;
    revoke(&rig.hub);
    until(async || rig.hub.metric("fairlead_upgrades_open", &[]) == 0.0).await;
    assert_eq!(socket.reset().await, Some(Reason::CANCEL));
    // The connection itself goes on.
    assert_eq!(rig.whoami().await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn pressure_on_memory_resets_streams_whose_clients_take_nothing() {
    let rig = Http2Rig::with_memory(BUDGET_BYTES).await;
    let mut stopped = Vec::new();
    for _ in 0..STOPPED_COUNT {
        stopped.push(rig.open(TARGET).await);
    }
    for socket in &mut stopped {
        for _ in 0..16 {
            socket.write_large(32 * 1024);
        }
    }
    let resets = async || rig.hub.metric("fairlead_stalled_resets_total", &["memory"]);
    let is_reset = async || (resets().await >= 1.0).then_some(());
    let found = eventually(TRANSFER_DEADLINE, "a reset", is_reset).await;
    found.unwrap();
    let ends = stopped.iter_mut().map(|it| Box::pin(it.reset()));
    let (end, ..) = select_all(ends).await;
    assert_eq!(end, Some(Reason::CANCEL));
    rig.assert_usable().await;
}

#[tokio::test]
async fn other_request_than_the_websocket_is_refused() {
    let rig = Http2Rig::start().await;
    let plain = |path: &str| builder(Method::CONNECT, path);
    let of = |protocol: &'static str| plain(TARGET).extension(Protocol::from_static(protocol));
    let wrong = |path: &str| websocket(&path.replace("db.shop:5432", ""));
    let (path, target, upgrade) = ("FL-1303", "FL-1420", "FL-1421");
    for (request, status, code) in [
        // Other protocols, and other destinations.
        (of("connect-udp"), 400, path),
        (of("connect-ip"), 400, path),
        (of("WebSocket"), 400, path),
        (of("websocket"), 400, upgrade),
        (websocket("/v1/whoami"), 400, path),
        (websocket("/connect"), 400, path),
        (websocket("/"), 400, path),
        (websocket("/k8s/clusters/c-a/api"), 400, path),
        (
            websocket("/k8s/clusters/c-a/v1/clusters/c-a/tcp/db:80"),
            400,
            path,
        ),
        (websocket("/v1/clusters/c-a%2ftcp/db:80"), 400, path),
        (websocket("/v1/clusters/c-a/tcp/../tcp/db:80"), 400, path),
        (
            websocket("/v1/clusters/c-unknown/tcp/db:80"),
            404,
            "FL-1301",
        ),
        // Targets.
        (wrong(TARGET), 400, target),
        (websocket("/v1/clusters/c-a/tcp/DB:80"), 400, target),
        (websocket("/v1/clusters/c-a/tcp/127.1:80"), 400, target),
        (websocket("/v1/clusters/c-a/tcp/user@db:80"), 400, target),
        (websocket("/v1/clusters/c-a/tcp/db:080"), 400, target),
        (websocket(&format!("{TARGET}?x=1")), 400, upgrade),
        // Headers.
        (
            websocket(TARGET).header("sec-websocket-version", "8"),
            400,
            upgrade,
        ),
        (
            of("websocket").header("sec-websocket-version", "13"),
            400,
            upgrade,
        ),
        (
            websocket(TARGET).header("impersonate-user", "bob"),
            403,
            "FL-1202",
        ),
        (
            websocket(TARGET).header("host", "other.test"),
            421,
            "FL-1302",
        ),
        (
            websocket(TARGET).header("host", "c-a.clusters.hub.test"),
            421,
            "FL-1302",
        ),
        (
            builder(Method::GET, TARGET).header("sec-websocket-version", "13"),
            400,
            upgrade,
        ),
    ] {
        let label = format!("{request:?}");
        let refusal = rig.refusal(request).await;
        assert_eq!(refusal, (status, code.to_owned()), "{label}");
    }
    let mut socket = rig.open("/v1/clusters/c-a/tcp/last.shop:1").await;
    assert_eq!(rig.agent.saw("CONNECT").await, "CONNECT last.shop:1");
    socket.write(b"x");
    socket.expect(b"\x82\x01x").await;
}
