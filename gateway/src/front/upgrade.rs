//! After a `101`: joins the client's connection with the agent's stream. A broken tunnel ends the client's connection
//! with a reset.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_exchange::{
    OnUpgrade, Spliced, Upgraded, frames::Protocol, splice, splice::SpliceEnd,
};
use fairlead_protocols::{Farewell, LastBytes};
use fairlead_runtime::gauges::GaugeGuard;
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tracing::debug;

use crate::{
    front::{
        frame_gate::FrameGate,
        pings::WebSocketPings,
        record::RequestRecord,
        socket::ResetOnDrop,
        tap::{RecordedIo, Tap},
        tcp::{last_bytes, splice_tcp},
        upgraded_stream::UpgradedStream,
    },
    hub::Hub,
    metrics::RequestEnd,
};

/// Deadline for the server to send the `101` and hand over the connection.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the last frame of the server to be completed.
const FRAME_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the client to act on the reason before the connection ends.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the client to take the reason and close the connection.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(3);

/// Both ends of an upgraded request.
pub(crate) struct UpgradeEnds {
    pub(crate) client: OnUpgrade,
    pub(crate) agent: Upgraded,
}

/// Form in which both ends are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// Both speak this protocol; `None` for an unknown one.
    Protocol(Option<Protocol>),
    /// The client's WebSocket carries the bytes of the agent's stream.
    Tcp,
    /// Both are plain bytes, at the port of a named service.
    Plain,
}

impl Joined {
    /// Protocol of the client's connection.
    const fn of_client(self) -> Option<Protocol> {
        match self {
            Joined::Protocol(protocol) => protocol,
            Joined::Tcp => Some(Protocol::WebSocket),
            Joined::Plain => None,
        }
    }

    async fn splice(
        self,
        client: &mut FrameGate<RecordedIo<Upgraded>>,
        agent: Upgraded,
    ) -> Spliced {
        match self {
            Joined::Protocol(Some(Protocol::WebSocket)) => {
                splice(WebSocketPings::new(client), agent).await
            }
            Joined::Protocol(_) | Joined::Plain => splice(client, agent).await,
            Joined::Tcp => splice_tcp(WebSocketPings::new(client), agent).await,
        }
    }
}

/// Joins both ends in a task of the process.
pub(crate) fn join(
    hub: &Arc<Hub>,
    record: RequestRecord,
    reset: ResetOnDrop,
    ends: UpgradeEnds,
    joined: Joined,
    (farewell, recording): (Farewell, Option<Tap>),
) {
    let UpgradeEnds { client, agent } = ends;
    let open = GaugeGuard::of(&hub.metrics.upgrades_open);
    let is_http2 = record.connection().is_http2();
    let reset = match is_http2 {
        // Other streams of the connection go on.
        true => ResetOnDrop::default(),
        false => reset,
    };
    // Armed until the end was clean, so that the end of the process is a reset too.
    reset.arm();
    if !is_http2 {
        record.connection().set_upgraded();
    }
    let hub = Arc::clone(hub);
    hub.process.clone().spawn(async move {
        let _open = open;
        let client = match timeout(UPGRADE_TIMEOUT, client).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                debug!(request = record.id(), %error, "client left before the upgrade");
                return record.set_outcome(RequestEnd::Left);
            }
            Err(_) => return record.set_outcome(RequestEnd::Left),
        };
        let client = match is_http2 {
            true => {
                let stream = UpgradedStream::new(client, &hub, &record, reset.clone());
                Upgraded::new(stream, Bytes::new())
            }
            false => client,
        };
        let client = RecordedIo::new(client, recording);
        let protocol = joined.of_client();
        let mut gate = FrameGate::new(client, protocol, farewell.streams(), record.clone());
        let end = {
            let mut joining = std::pin::pin!(joined.splice(&mut gate, agent));
            tokio::select! {
                biased;
                joined = &mut joining => Some(joined.end),
                _ = record.ended() => {
                    let joined = timeout(FRAME_TIMEOUT, joining).await;
                    joined.ok().map(|it| it.end)
                }
            }
        };
        if let Some(ending) = record.ending() {
            if let Some((client, streams)) = gate.into_boundary()
                && let Some(last) = farewell.bytes(&ending.failure, streams.as_ref())
                && let Ok(Ok(())) = timeout(FAREWELL_TIMEOUT, take_leave(client, &last)).await
            {
                reset.disarm();
            }
            return;
        }
        if joined == Joined::Tcp
            && let Some(last) = end.as_ref().and_then(last_bytes)
            && let Some((client, _)) = gate.into_boundary()
            && let Ok(Ok(())) = timeout(FAREWELL_TIMEOUT, take_leave(client, &last)).await
        {
            reset.disarm();
        }
        let (error, outcome) = match end {
            None | Some(SpliceEnd::Clean) => return reset.disarm(),
            Some(SpliceEnd::A(error)) => (error, RequestEnd::Left),
            Some(SpliceEnd::B(error)) => (error, RequestEnd::Aborted),
        };
        debug!(request = record.id(), %error, "upgraded connection broke");
        record.set_outcome(outcome);
    });
}

/// Sends the last bytes, and waits until the client has closed.
async fn take_leave(mut client: RecordedIo<Upgraded>, last: &LastBytes) -> io::Result<()> {
    client.write_all(&last.message).await?;
    if let Some(close) = &last.close {
        client.flush().await?;
        if let Ok(closed) = timeout(REASON_TIMEOUT, read_to_end(&mut client)).await {
            return closed;
        }
        client.write_all(close).await?;
    }
    client.shutdown().await?;
    read_to_end(&mut client).await
}

async fn read_to_end(client: &mut RecordedIo<Upgraded>) -> io::Result<()> {
    let mut dropped = [0; 1024];
    while client.read(&mut dropped).await? > 0 {}
    Ok(())
}
