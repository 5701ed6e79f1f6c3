//! Control of a running link: one JSON line on a Unix socket, answered by `ok` or an error.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::shape::LinkShape;

/// Deadline of one order.
const ORDER_DEADLINE: Duration = Duration::from_secs(30);
/// Longest order, in bytes.
const MAX_ORDER_BYTES: u64 = 4096;

/// Direction of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Toward {
    /// Packets from the site to the hub.
    Hub,
    /// Packets from the hub to the site.
    Site,
    /// Packets of both directions.
    Both,
}

/// An order such as `{"toward":"both","shape":{"delay_us":75000,"loss":0.01}}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkOrder {
    /// Affected direction.
    pub toward: Toward,
    /// New properties of the direction.
    pub shape: LinkShape,
}

/// Client of a running link, by the path of its socket.
#[derive(Debug)]
pub struct LinkControl(PathBuf);

impl LinkControl {
    /// Makes a client; it connects anew for each order.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self(socket)
    }

    /// Changes the link for every packet that arrives after this.
    ///
    /// # Errors
    /// The link has ended, or rejects the order.
    pub fn set(&self, toward: Toward, shape: LinkShape) -> anyhow::Result<()> {
        let socket = UnixStream::connect(&self.0).context("the link emulator is gone")?;
        bound(&socket)?;
        let order = serde_json::to_string(&LinkOrder { toward, shape })?;
        writeln!(&socket, "{order}")?;
        let answer = line(&socket)?;
        if answer != "ok" {
            bail!("the link emulator refuses {order}: {answer}");
        }
        Ok(())
    }
}

/// Executes orders until the listener fails.
///
/// # Errors
/// The listener fails.
pub fn serve(listener: &UnixListener, mut carry_out: impl FnMut(LinkOrder)) -> anyhow::Result<()> {
    // One order at a time, each with a deadline: only the rig connects here.
    for stream in listener.incoming() {
        let stream = stream?;
        bound(&stream)?;
        let read = line(&stream).and_then(|line| Ok(serde_json::from_str::<LinkOrder>(&line)?));
        let answer = match read {
            Ok(order) => {
                carry_out(order);
                "ok".to_owned()
            }
            Err(error) => error.to_string(),
        };
        // A client that closed early gets no answer.
        drop(writeln!(&stream, "{answer}"));
    }
    Ok(())
}

fn bound(stream: &UnixStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(ORDER_DEADLINE))?;
    Ok(stream.set_write_timeout(Some(ORDER_DEADLINE))?)
}

fn line(stream: &UnixStream) -> anyhow::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(MAX_ORDER_BYTES)).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
