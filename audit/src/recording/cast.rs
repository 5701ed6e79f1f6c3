//! asciicast version 2 (`docs.asciinema.org/manual/asciicast/v2`): a head, then a line per event.

use std::io;

use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{
    frames::{ChannelFrames, Direction},
    seal::SealedFile,
    spdy::SpdyStreams,
};
use crate::policy::StreamForm;

/// Channels of Kubernetes' remote commands.
const STDIN_CHANNEL: u8 = 0;
const STDOUT_CHANNEL: u8 = 1;
const STDERR_CHANNEL: u8 = 2;
const RESIZE_CHANNEL: u8 = 4;
/// Limit of a resize message in bytes.
const MAX_RESIZE_BYTES: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TerminalSize {
    width: u16,
    height: u16,
}

/// A recording that is being written.
pub(super) struct Cast {
    file: SealedFile,
    title: String,
    with_input: bool,
    began: Option<Instant>,
    streams: Streams,
    output: Utf8Tail,
    input: Utf8Tail,
    bytes: u64,
}

/// Reader of the streams of a session, by their form.
enum Streams {
    WebSocket {
        to_client: ChannelFrames,
        to_server: ChannelFrames,
    },
    Spdy(Box<SpdyStreams>),
}

impl From<StreamForm> for Streams {
    fn from(form: StreamForm) -> Self {
        match form {
            StreamForm::WebSocket => Streams::WebSocket {
                to_client: ChannelFrames::default(),
                to_server: ChannelFrames::of_client(),
            },
            StreamForm::Spdy => Streams::Spdy(Box::default()),
        }
    }
}

impl Streams {
    /// Channels and data of these bytes.
    fn parts(&mut self, direction: Direction, bytes: &[u8]) -> io::Result<Vec<(u8, Vec<u8>)>> {
        let mut parts = Vec::new();
        let mut each = |channel: u8, data: &[u8]| parts.push((channel, data.to_vec()));
        match (self, direction) {
            (Streams::WebSocket { to_client, .. }, Direction::ToClient) => {
                to_client.follow(bytes, each)?;
            }
            (Streams::WebSocket { to_server, .. }, Direction::ToServer) => {
                to_server.follow(bytes, each)?;
            }
            (Streams::Spdy(streams), _) => streams.follow(direction, bytes, &mut each)?,
        }
        Ok(parts)
    }
}

/// The begin of a character whose rest has not come.
#[derive(Default)]
struct Utf8Tail(Vec<u8>);

impl Utf8Tail {
    fn text(&mut self, data: &[u8]) -> String {
        self.0.extend_from_slice(data);
        let incomplete = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => self.0.len() - error.valid_up_to(),
            _ => 0,
        };
        let tail = self.0.split_off(self.0.len() - incomplete);
        let whole = std::mem::replace(&mut self.0, tail);
        String::from_utf8_lossy(&whole).into_owned()
    }
}

impl Cast {
    pub(super) fn new(file: SealedFile, title: String, with_input: bool, form: StreamForm) -> Self {
        Cast {
            file,
            title,
            with_input,
            began: None,
            streams: form.into(),
            output: Utf8Tail::default(),
            input: Utf8Tail::default(),
            bytes: 0,
        }
    }

    /// Bytes of the recording so far, before sealing.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes of the session.
    pub(super) fn add(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        at: Instant,
    ) -> io::Result<()> {
        for (channel, data) in self.streams.parts(direction, bytes)? {
            match (direction, channel) {
                (Direction::ToClient, STDOUT_CHANNEL | STDERR_CHANNEL) => {
                    let text = self.output.text(&data);
                    self.event("o", &text, at)?;
                }
                (Direction::ToServer, STDIN_CHANNEL) if self.with_input => {
                    let text = self.input.text(&data);
                    self.event("i", &text, at)?;
                }
                (Direction::ToServer, RESIZE_CHANNEL) if data.len() <= MAX_RESIZE_BYTES => {
                    if let Ok(size) = serde_json::from_slice::<TerminalSize>(&data) {
                        self.resize(&size, at)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn resize(&mut self, size: &TerminalSize, at: Instant) -> io::Result<()> {
        if self.began.is_none() {
            return self.begin(size, at);
        }
        self.event("r", &format!("{}x{}", size.width, size.height), at)
    }

    fn begin(&mut self, size: &TerminalSize, at: Instant) -> io::Result<()> {
        self.began = Some(at);
        self.line(&json!({
            "version": 2,
            "width": size.width,
            "height": size.height,
            "timestamp": OffsetDateTime::now_utc().unix_timestamp(),
            "title": self.title,
        }))
    }

    fn event(&mut self, kind: &str, text: &str, at: Instant) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.began.is_none() {
            let size = TerminalSize {
                width: 80,
                height: 24,
            };
            self.begin(&size, at)?;
        }
        let began = self.began.unwrap_or(at);
        let seconds = at.saturating_duration_since(began).as_secs_f64();
        self.line(&json!([seconds, kind, text]))
    }

    fn line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        let line = format!("{line}\n");
        self.bytes += line.len() as u64;
        self.file.write(line.as_bytes())
    }

    /// Writes the last block, without which the file counts as cut.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.finish()
    }
}
