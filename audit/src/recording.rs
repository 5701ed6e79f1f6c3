//! Recordings of terminal sessions (`exec`, `attach`): asciicast version 2, sealed with `age` for the auditor.
//!
//! A session hands its bytes to a bounded queue, and one blocking task per recording parses, formats, seals and writes them.

mod cast;
mod frames;
mod reserved;
mod retention;
mod seal;
mod spdy;

use time::OffsetDateTime;
use tokio::{sync::mpsc, task::spawn_blocking, time::Instant};
use tracing::warn;

use crate::{
    event::{RequestHead, RequestParty, Stage, request_event},
    log::AuditLog,
    policy::{Recording, Unrecordable},
};
use cast::Cast;
use frames::Direction;
use retention::RunningFile;
pub use retention::{RecordingFile, recordings};
pub use seal::{OpenError, open_recording};

/// Pieces of a session that wait for its writer; each has at most 32 KiB.
const MAX_QUEUED_PIECES: usize = 32;

/// A piece of a session.
pub struct Piece {
    direction: Direction,
    bytes: Vec<u8>,
    at: Instant,
}

impl Piece {
    /// Bytes from the server to the client.
    #[must_use]
    pub fn to_client(bytes: &[u8]) -> Self {
        Piece::of(Direction::ToClient, bytes)
    }

    /// Bytes from the client to the server.
    #[must_use]
    pub fn to_server(bytes: &[u8]) -> Self {
        Piece::of(Direction::ToServer, bytes)
    }

    fn of(direction: Direction, bytes: &[u8]) -> Self {
        Piece {
            direction,
            bytes: bytes.to_vec(),
            at: Instant::now(),
        }
    }
}

impl Recording {
    /// Begins the file. The session sends its pieces to the result; the file ends when that is dropped.
    ///
    /// # Errors
    /// [`Unrecordable`] if the file cannot be created.
    pub fn begin(
        self,
        log: &AuditLog,
        head: &RequestHead<'_>,
        party: &RequestParty<'_>,
    ) -> Result<mpsc::Sender<Piece>, Unrecordable> {
        let inner = &self.recorder.0;
        let name = file_name(head, party, OffsetDateTime::now_utc());
        let sealed = seal::create(&inner.dir.join(&name), &inner.config.recipient.0);
        let sealed = sealed.map_err(|error| Unrecordable(error.to_string()))?;
        let (sender, mut pieces) = mpsc::channel::<Piece>(MAX_QUEUED_PIECES);
        let mut cast = Cast::new(sealed, title(head, party), inner.config.input, self.form);
        let (log, event) = (log.clone(), request_event(head, party, None));
        log.recording(Stage::Start, event.clone(), name.clone(), 0);
        let permit = self.permit;
        let running = RunningFile::of(&self.recorder, &name);
        spawn_blocking(move || {
            let mut written = Ok(());
            while let Some(piece) = pieces.blocking_recv() {
                written = cast.add(piece.direction, &piece.bytes, piece.at);
                if written.is_err() {
                    break;
                }
            }
            // The session ends, or goes on without: its next piece has no receiver.
            drop(pieces);
            let bytes = cast.bytes();
            let ended = written.and_then(|()| cast.finish());
            if let Err(error) = ended {
                warn!(%error, file = name, "recording broke off");
            }
            log.recording(Stage::End, event, name, bytes);
            drop((permit, running));
        });
        Ok(sender)
    }
}

/// Like `20261123T194801Z_c-demo_ann_9f86d081884c7d65.cast.age`.
fn file_name(head: &RequestHead<'_>, party: &RequestParty<'_>, at: OffsetDateTime) -> String {
    let at = crate::event::timestamp(at).replace(['-', ':'], "");
    let at = at.split('.').next().unwrap_or_default().to_owned();
    let plain = |text: &str| -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let plain = text.chars().map(|c| if fits(c) { c } else { '-' });
        plain.take(64).collect()
    };
    let caller = party.caller.map_or("", |caller| caller.name);
    let cluster = party.cluster.unwrap_or_default();
    format!(
        "{at}Z_{}_{}_{}.cast.age",
        plain(cluster),
        plain(caller),
        plain(head.id)
    )
}

fn title(head: &RequestHead<'_>, party: &RequestParty<'_>) -> String {
    let caller = party.caller.map_or("", |caller| caller.name);
    let path = party.api_path.unwrap_or(head.path);
    format!("{caller} {path} ({})", head.id)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, time::Duration};

    use super::*;
    use crate::{AuditConfig, CallerNames, JournalSettings, OnFull, SessionFacts, verify};

    fn frame(opcode: u8, payload: &[u8], mask: bool) -> Vec<u8> {
        let mut frame = vec![0x80 | opcode];
        let flag = if mask { 0x80 } else { 0 };
        match payload.len() {
            length @ 0..126 => frame.push(flag | u8::try_from(length).unwrap()),
            length => {
                frame.push(flag | 126);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
        }
        if mask {
            let key = [1, 2, 3, 4];
            frame.extend(key);
            frame.extend(payload.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b));
        } else {
            frame.extend(payload);
        }
        frame
    }

    fn facts(role: &str) -> SessionFacts<'_> {
        SessionFacts {
            method: "GET",
            path: "/api/v1/namespaces/x/pods/p/exec",
            cluster: "c-a",
            tenant: "t-a",
            role,
            upgrade: Some("websocket"),
            protocols: "v5.channel.k8s.io, v4.channel.k8s.io",
        }
    }

    #[tokio::test]
    #[allow(
        clippy::too_many_lines,
        reason = "one session from its policy to its playback"
    )]
    async fn session_is_sealed_and_plays_back_for_the_auditor_alone() {
        let folder = tempfile::tempdir().unwrap();
        let writer = AuditLog::open(
            JournalSettings::of(folder.path().to_owned(), "hub".to_owned()),
            OnFull::Refuse,
        )
        .unwrap();
        let key = age::x25519::Identity::generate();
        let config = format!(
            "[recording]\nrecipient = \"{}\"\nroles = [\"operator\"]",
            key.to_public()
        );
        let config = AuditConfig::parse(&config).unwrap();
        let recorder = config.recorder(folder.path()).unwrap().unwrap();
        assert!(
            recorder.check(facts("viewer")).unwrap().is_none(),
            "another role"
        );
        let spdy = SessionFacts {
            upgrade: Some("SPDY/3.1"),
            ..facts("operator")
        };
        assert!(recorder.check(spdy).unwrap().is_some());
        let logs = SessionFacts {
            path: "/api/v1/namespaces/x/pods/p/log",
            ..spdy
        };
        assert!(recorder.check(logs).unwrap().is_none());
        let recording = recorder.check(facts("operator")).unwrap().unwrap();
        let head = RequestHead {
            id: "00000000000000aa",
            method: "GET",
            path: "/x",
            query: None,
            from: "192.0.2.1:1".parse().unwrap(),
        };
        let party = RequestParty {
            caller: Some(CallerNames {
                name: "ann@x",
                ..CallerNames::default()
            }),
            cluster: Some("c-a"),
            ..RequestParty::default()
        };
        let sender = recording.begin(&writer.log(), &head, &party).unwrap();
        let resize = frame(2, b"\x04{\"Width\":132,\"Height\":41}", true);
        sender.send(Piece::to_server(&resize)).await.unwrap();
        sender
            .send(Piece::to_server(&frame(2, b"\x00password\n", true)))
            .await
            .unwrap();
        let output = frame(2, "\u{1}hällo\r\n".as_bytes(), false);
        for piece in output.chunks(3) {
            sender.send(Piece::to_client(piece)).await.unwrap();
        }
        sender
            .send(Piece::to_client(&frame(9, b"", false)))
            .await
            .unwrap();
        let long = [b"\x02".to_vec(), vec![b'e'; 1000]].concat();
        sender
            .send(Piece::to_client(&frame(2, &long, false)))
            .await
            .unwrap();
        drop(sender);
        let file = fs::read_dir(folder.path().join("recordings"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert!(
            file.to_str()
                .unwrap()
                .ends_with("Z_c-a_ann-x_00000000000000aa.cast.age")
        );
        let sealed = fs::read(&file).unwrap();
        assert!(!sealed.windows(5).any(|window| window == b"h\xc3\xa4ll"));
        let identity = age::secrecy::ExposeSecret::expose_secret(&key.to_string()).to_owned();
        let mut text = String::new();
        for _ in 0..1000 {
            text.clear();
            let opened = open_recording(&file, &identity);
            if opened
                .and_then(|mut it| Ok(it.read_to_string(&mut text)?))
                .is_ok()
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (&lines[0]["version"], &lines[0]["width"]),
            (&2.into(), &132.into())
        );
        let output: String = lines[1..]
            .iter()
            .map(|line| line[2].as_str().unwrap())
            .collect();
        assert_eq!(output, format!("hällo\r\n{}", "e".repeat(1000)));
        assert!(
            lines[1..].iter().all(|line| line[1] == "o"),
            "no input: {text}"
        );
        let other = age::x25519::Identity::generate().to_string();
        let other = age::secrecy::ExposeSecret::expose_secret(&other);
        assert!(open_recording(&file, other).is_err());
        for _ in 0..1000 {
            if *writer.log().written().borrow() >= 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        writer.finish();
        let log = fs::read_to_string(folder.path().join("00000001.jsonl")).unwrap();
        assert_eq!(log.matches("\"kind\":\"recording\"").count(), 2, "{log}");
        assert_eq!(verify(folder.path()).unwrap().findings, []);
    }
}
