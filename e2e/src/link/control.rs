//! How a running link is changed: one JSON line on a Unix socket, answered by `ok` once it holds, or by what is wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::shape::Shape;

/// For one order and its answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// No order is longer, in bytes.
const LINE: u64 = 4096;

/// Which way packets go: to the hub, to the site, or either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Toward {
    Hub,
    Site,
    Both,
}

/// `{"toward":"both","shape":{"delay_us":75000,"loss":0.01}}`
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub toward: Toward,
    pub shape: Shape,
}

/// The way to a running link.
#[derive(Debug)]
pub struct Control(PathBuf);

impl Control {
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self(socket)
    }

    /// Holds for every packet that arrives after this.
    ///
    /// # Errors
    /// The link is gone, or refuses.
    pub fn set(&self, toward: Toward, shape: Shape) -> anyhow::Result<()> {
        let socket = UnixStream::connect(&self.0).context("the link emulator is gone")?;
        bound(&socket)?;
        let order = serde_json::to_string(&Order { toward, shape })?;
        writeln!(&socket, "{order}")?;
        let answer = line(&socket)?;
        if answer != "ok" {
            bail!("the link emulator refuses {order}: {answer}");
        }
        Ok(())
    }
}

/// Carries out orders as long as the listener works.
///
/// # Errors
/// It does not any more.
pub fn serve(listener: &UnixListener, mut carry_out: impl FnMut(Order)) -> anyhow::Result<()> {
    // One at a time, each with a deadline: nobody but the rig is to come here.
    for stream in listener.incoming() {
        let stream = stream?;
        bound(&stream)?;
        let read = line(&stream).and_then(|line| Ok(serde_json::from_str::<Order>(&line)?));
        let answer = match read {
            Ok(order) => {
                carry_out(order);
                "ok".to_owned()
            }
            Err(error) => error.to_string(),
        };
        // Who does not wait for the answer does without it.
        drop(writeln!(&stream, "{answer}"));
    }
    Ok(())
}

fn bound(stream: &UnixStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream.set_write_timeout(Some(DEADLINE))?)
}

fn line(stream: &UnixStream) -> anyhow::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE)).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
