//! `kubectl port-forward`, with many connections at once.

use anyhow::ensure;
use fairlead_e2e::UpgradeProtocol;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::world::{CallRoute, KubectlWorld};
use crate::{BOTH, STEP_DEADLINE};

const CONNECTION_COUNT: usize = 100;
/// Bytes sent per connection.
const MESSAGE_BYTES: usize = 16 * 1024;
const ECHO_PORT: u16 = 7;

/// All connections are open and have had an answer before any of them continues.
async fn many_at_once(port: u16) -> anyhow::Result<()> {
    let mut open = JoinSet::new();
    for number in 0..CONNECTION_COUNT {
        open.spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
            said(&mut stream, format!("{number:04}").as_bytes()).await?;
            anyhow::Ok((number, stream))
        });
    }
    let mut talk = JoinSet::new();
    let mut ready = Vec::new();
    while let Some(opened) = timeout(STEP_DEADLINE, open.join_next()).await? {
        ready.push(opened??);
    }
    for (number, mut stream) in ready {
        talk.spawn(async move {
            let letter: Vec<u8> = format!("{number:04}")
                .bytes()
                .cycle()
                .take(MESSAGE_BYTES)
                .collect();
            said(&mut stream, &letter).await
        });
    }
    while let Some(done) = timeout(STEP_DEADLINE, talk.join_next()).await? {
        done??;
    }
    Ok(())
}

async fn said(stream: &mut TcpStream, letter: &[u8]) -> anyhow::Result<()> {
    let (mut reader, mut writer) = stream.split();
    let mut answer = vec![0; letter.len()];
    tokio::try_join!(writer.write_all(letter), async {
        reader.read_exact(&mut answer).await.map(drop)
    })?;
    ensure!(
        answer == letter,
        "another connection's bytes, or damaged ones"
    );
    Ok(())
}

#[tokio::test]
async fn hundred_connections_at_once_each_have_their_own_echo() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let target = format!("pod/{}", world.pod(0));
    for way in CallRoute::ALL {
        for over in BOTH {
            let forward = world.kubectl(way).transport(over).deadline(STEP_DEADLINE);
            let (port, mut forward) = forward.port_forward(&target, ECHO_PORT).await?;
            let fine = many_at_once(port).await;
            ensure!(
                fine.is_ok(),
                "{way:?} {over:?}: {fine:?}: {}",
                forward.stderr()
            );
            forward.signal(Signal::INT)?;
            forward.wait().await?;
        }
    }
    // A WebSocket starts with GET, SPDY with POST; kubectl falls back silently. Start and end are two events.
    let of = |verb: &'static str| {
        move |event: &Value| {
            let (what, pod) = (&event["objectRef"], world.pod(0));
            what["subresource"] == "portforward" && what["name"] == pod && event["verb"] == verb
        }
    };
    let each = 2 * CallRoute::TUNNELLED.len();
    for verb in ["get", "create"] {
        assert_eq!(world.audited(each, of(verb)).await?.len(), each, "{verb}");
    }
    Ok(())
}

#[tokio::test]
async fn refused_port_ends_its_own_connection_alone() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let target = format!("pod/{}", world.pod(2));
    for way in CallRoute::ALL {
        let forward = world
            .kubectl(way)
            .transport(UpgradeProtocol::Spdy)
            .deadline(STEP_DEADLINE);
        // No program listens on this port.
        let (port, running) = forward.port_forward(&target, 1).await?;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let mut answer = Vec::new();
        // Closed or reset, the connection ends without data.
        let _ = timeout(STEP_DEADLINE, stream.read_to_end(&mut answer)).await?;
        assert!(answer.is_empty(), "{way:?}");
        drop(running);
    }
    Ok(())
}
