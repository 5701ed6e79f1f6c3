//! Watches of light clusters. Each is opened again from its last version when it ends, as clients do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{spawn, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::{light::CONFIG_MAPS, rig::LoadAccess, tally::PhaseTally};

/// Number of watches.
pub(crate) const WATCH_COUNT: usize = 100;
/// Pause of a client before it opens a watch again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Length of a code: `FL-1408`.
const MAX_CODE_CHARS: usize = 7;
/// Clusters without watches: the first one is a real one, without numbered events.
const REAL_CLUSTERS: usize = 1;

/// Watches a cluster until it is stopped.
pub(crate) async fn run(
    access: Arc<LoadAccess>,
    number: usize,
    tally: Arc<PhaseTally>,
    stop: Arc<AtomicBool>,
) {
    let light = access.clusters.len() - REAL_CLUSTERS;
    let (name, id) = &access.clusters[REAL_CLUSTERS + number % light];
    let mut watch = CheckedWatch {
        access: &access,
        tally: &tally,
        number,
        name,
        id,
        last: None,
        has_ended: false,
    };
    while !stop.load(Ordering::Relaxed) {
        let reason = match watch.follow().await {
            Ok(()) => "a clean end".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        tally.watch_ended(reason);
        watch.has_ended = true;
        sleep(RETRY_DELAY).await;
    }
}

struct CheckedWatch<'a> {
    access: &'a LoadAccess,
    tally: &'a PhaseTally,
    number: usize,
    name: &'a str,
    id: &'a str,
    /// Version of the last event.
    last: Option<u64>,
    /// An end without an event since.
    has_ended: bool,
}

impl CheckedWatch<'_> {
    /// Opens the watch and reads its events to its end.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let io = self.access.client.connect().await.context("connect")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
        let _connection = AbortOnDropHandle::new(spawn(connection));
        let from = self.last.map(|last| format!("&resourceVersion={last}"));
        let from = from.unwrap_or_default();
        let request = http::Request::get(format!(
            "/k8s/clusters/{}{CONFIG_MAPS}?watch=true{from}",
            self.id
        ))
        .header("host", "127.0.0.1")
        .header("authorization", format!("Bearer {}", self.access.token))
        .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await.context("no answer")?;
        let status = response.status();
        let mut body = response.into_body();
        if status != 200 {
            let text = body.collect().await?.to_bytes();
            let status_object: Value = serde_json::from_slice(&text).unwrap_or_default();
            bail!("{status}: {}", code_in(&status_object));
        }
        let mut buffer = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.context("the body broke off")?;
            buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                self.event(&serde_json::from_slice(&line)?)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Value) -> anyhow::Result<()> {
        if event["type"] == "ERROR" {
            bail!("ERROR {}", code_in(&event["object"]));
        }
        let object = &event["object"];
        if object["data"]["cluster"] != self.name {
            let number = self.number;
            self.tally
                .wrong(format!("watch {number} of {}: {event}", self.name));
        }
        let version = object["metadata"]["resourceVersion"].as_str();
        let version: u64 = version.context("no version")?.parse()?;
        if let Some(last) = self.last.filter(|last| last + 1 != version) {
            let number = self.number;
            self.tally
                .lost_event(format!("watch {number}: {version} after {last}"));
        }
        self.last = Some(version);
        self.tally.event(self.number, self.has_ended);
        self.has_ended = false;
        Ok(())
    }
}

/// Code of Fairlead in the message of a `Status`, or its first words.
fn code_in(status: &Value) -> String {
    let message = status["message"].as_str().unwrap_or_default();
    let from = message.find("FL-").unwrap_or_default();
    message.chars().skip(from).take(MAX_CODE_CHARS).collect()
}
