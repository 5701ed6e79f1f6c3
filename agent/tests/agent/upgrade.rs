//! Raw streams: upgrades, as exec and port-forward make them, and CONNECT.

use fairlead_exchange::{Answer, Upgraded};
use http::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use fairlead_testkit::hub::ConnectedAgent;

use crate::rig::{Rig, body, closed, nothing, request, send, soon, until};

pub(crate) async fn exec(hub: &ConnectedAgent, path: &str) -> Upgraded {
    let request_head = request("POST", path)
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1");
    match soon(hub.exchanges.send(request_head.body(nothing()).unwrap()))
        .await
        .unwrap()
    {
        Answer::Upgraded(head, raw) => {
            assert_eq!(head.status(), 101);
            assert_eq!(head.headers()["upgrade"], "SPDY/3.1");
            raw
        }
        Answer::Response(answer) => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn upgraded_stream_may_end_towards_the_server_first() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let mut raw = exec(&hub, "/exec").await;
    raw.write_all(b"input").await.unwrap();
    raw.shutdown().await.unwrap();
    let mut received = String::new();
    soon(raw.read_to_string(&mut received)).await.unwrap();
    assert_eq!(
        received, "hello input",
        "data after the end of the input still arrives"
    );
    until(|| *rig.api.script.stream_inputs.lock().unwrap() == ["input"]).await;
    assert_eq!(
        rig.api.last("/exec").all("impersonate-user"),
        ["fairlead:ann"]
    );
}

#[tokio::test]
async fn upgraded_stream_may_end_towards_the_client_first() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let mut raw = exec(&hub, "/exec?ends-first").await;
    let mut received = String::new();
    soon(raw.read_to_string(&mut received)).await.unwrap();
    assert_eq!(received, "hello ");
    raw.write_all(b"still received").await.unwrap();
    raw.shutdown().await.unwrap();
    until(|| *rig.api.script.stream_inputs.lock().unwrap() == ["still received"]).await;
    // Only the agent's own connection is left.
    until(|| rig.api.server.connections() == 1).await;
}

#[tokio::test]
async fn reset_upgraded_stream_ends_at_the_api_server() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let mut raw = exec(&hub, "/exec").await;
    raw.write_all(b"half").await.unwrap();
    let mut hello = [0; 6];
    soon(raw.read_exact(&mut hello)).await.unwrap();
    drop(raw);
    until(|| !rig.api.script.stream_inputs.lock().unwrap().is_empty()).await;
    assert_eq!(
        *rig.api.script.stream_inputs.lock().unwrap(),
        ["half (broken)"],
        "a reset is not an end of input"
    );
}

/// The kernel of a closed server answers a ping with a reset, and discards unsent data.
#[tokio::test]
async fn ping_loses_no_data_of_a_closing_api_server() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let mut raw = exec(&hub, "/exec?closes").await;
    let mut head = [0; 8];
    soon(raw.read_exact(&mut head)).await.unwrap();
    until(|| *rig.api.script.stream_inputs.lock().unwrap() == ["closed"]).await;
    let ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01";
    for _ in 0..3 {
        raw.write_all(ping).await.unwrap();
        raw.flush().await.unwrap();
        // One round trip through the agent, which handles messages in order.
        send(&hub.exchanges, request("GET", "/").body(nothing()).unwrap()).await;
    }
    let mut received = Vec::new();
    soon(raw.read_to_end(&mut received)).await.unwrap();
    assert_eq!(received.len(), 0x0020_0000 + 3 * ping.len());
}

#[tokio::test]
async fn rejected_upgrade_passes_unchanged() {
    let rig = Rig::new().await;
    let (_agent, hub) = rig.connected().await;
    let request_head = request("POST", "/exec?refuse")
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1");
    let answer = send(&hub.exchanges, request_head.body(nothing()).unwrap()).await;
    assert_eq!(answer.status(), 403);
    assert!(answer.headers().get("fairlead-code").is_none());
    assert_eq!(body(answer).await, "no exec for you");
}

#[tokio::test]
async fn connect_reaches_listed_addresses_and_no_others() {
    let rig = Rig::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (_held, closed) = closed();
    let closed = closed.to_string();
    let mut config = rig.config();
    config.allow_connect = vec![address.clone(), closed.clone()];
    let _agent = rig.start(config);
    let hub = rig.hub.next().await;
    let connect = |to: &str| Request::connect(to).body(nothing()).unwrap();

    let port = address.rsplit(':').next().unwrap();
    for (other, status, expected) in [
        ("db:1".to_owned(), 403, "FL-1503"),
        ("127.0.0.1:1".to_owned(), 403, "FL-1523"),
        (format!("127.0.0.1:0{port}"), 400, "FL-1524"),
        (format!("LOCALHOST:{port}"), 400, "FL-1524"),
    ] {
        let answer = send(&hub.exchanges, connect(&other)).await;
        let code = answer.headers()["fairlead-code"]
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            (answer.status().as_u16(), code.as_str()),
            (status, expected),
            "{other}"
        );
    }
    let answer = send(&hub.exchanges, connect(&closed)).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["fairlead-code"]),
        (502, &"FL-1505".parse().unwrap())
    );

    let Answer::Upgraded(head, mut raw) =
        soon(hub.exchanges.send(connect(&address))).await.unwrap()
    else {
        panic!("not raw")
    };
    assert_eq!(head.status(), 200);
    let (mut peer, _) = listener.accept().await.unwrap();
    raw.write_all(b"ping").await.unwrap();
    raw.shutdown().await.unwrap();
    let mut received = String::new();
    soon(peer.read_to_string(&mut received)).await.unwrap();
    peer.write_all(b"pong").await.unwrap();
    drop(peer);
    let mut answered = String::new();
    soon(raw.read_to_string(&mut answered)).await.unwrap();
    assert_eq!((received.as_str(), answered.as_str()), ("ping", "pong"));
}

#[tokio::test]
async fn unread_rest_of_a_closed_raw_stream_is_dropped() {
    let rig = Rig::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut config = rig.config();
    config.allow_connect = vec![address.clone()];
    let agent = rig.start(config);
    let hub = rig.hub.next().await;
    let connect = Request::connect(&address).body(nothing()).unwrap();
    let Answer::Upgraded(_, mut raw) = soon(hub.exchanges.send(connect)).await.unwrap() else {
        panic!("not raw")
    };
    let (_reads_nothing, _) = listener.accept().await.unwrap();
    let writing = tokio::spawn(async move { while raw.write_all(&[0; 4096]).await.is_ok() {} });
    let unread = || agent.gauge("fairlead_agent_session_unread_bytes") as usize;
    until(|| unread() >= 64 << 10).await;
    writing.abort();
    until(|| unread() == 0).await;
    until(|| agent.gauge("fairlead_agent_streams_open") == 0.0).await;
}
