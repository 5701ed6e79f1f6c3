use std::io::Cursor;

use proptest::prelude::*;
use tokio_tungstenite::tungstenite::{
    Message, WebSocket,
    protocol::{self, WebSocketConfig},
};

use super::*;

/// A message or a control frame, as seen by a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
}

/// All frames in `bytes`, passed to the decoder in pieces of `step` bytes.
fn read(role: SocketRole, bytes: &[u8], step: usize) -> Result<Vec<Said>, WsError> {
    let mut decoder = Decoder::new(role);
    let (mut inbox, mut said) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(step.max(1)) {
        inbox.extend_from_slice(piece);
        while let Some(frame) = decoder.decode(&mut inbox)? {
            let body = inbox[frame.head..frame.end].to_vec();
            inbox.drain(..frame.end);
            match frame.event {
                Event::Whole => said.push(Said::Binary(body)),
                Event::Assembled => said.push(Said::Binary(decoder.assembled())),
                Event::Part => {}
                Event::Ping => said.push(Said::Ping(body)),
                Event::Pong => said.push(Said::Pong(body)),
                Event::Close(code) => said.push(Said::Close(code)),
            }
        }
    }
    Ok(said)
}

fn written(role: SocketRole, said: &[Said]) -> Vec<u8> {
    let mut encoder = Encoder::new(role);
    let mut bytes = Vec::new();
    for said in said {
        let (opcode, body) = match said {
            Said::Binary(body) => (Opcode::Binary, body.clone()),
            Said::Ping(body) => (Opcode::Ping, body.clone()),
            Said::Pong(body) => (Opcode::Pong, body.clone()),
            Said::Close(code) => (
                Opcode::Close,
                code.map_or_else(Vec::new, |code| code.to_be_bytes().to_vec()),
            ),
        };
        let frame = encoder.frame(opcode, body.len(), |out| out.put_slice(&body));
        bytes.extend_from_slice(&frame.unwrap());
    }
    bytes
}

fn other(role: SocketRole) -> SocketRole {
    match role {
        SocketRole::Agent => SocketRole::Hub,
        SocketRole::Hub => SocketRole::Agent,
    }
}

fn theirs(role: SocketRole) -> protocol::Role {
    match role {
        SocketRole::Agent => protocol::Role::Client,
        SocketRole::Hub => protocol::Role::Server,
    }
}

fn said() -> impl Strategy<Value = Said> {
    let control = || prop::collection::vec(any::<u8>(), 0..=CONTROL_LIMIT);
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..400).prop_map(Said::Binary),
        1 => (any::<u8>(), 60_000..=65_535_usize).prop_map(|(b, n)| Said::Binary(vec![b; n])),
        1 => control().prop_map(Said::Ping),
        1 => control().prop_map(Said::Pong),
        1 => prop::option::of(any::<u16>()).prop_map(Said::Close),
    ]
}

fn role() -> impl Strategy<Value = SocketRole> {
    prop_oneof![Just(SocketRole::Agent), Just(SocketRole::Hub)]
}

/// Responses are dropped; they must not overwrite unread input.
struct Heard(Cursor<Vec<u8>>);

impl std::io::Read for Heard {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl std::io::Write for Heard {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn encoded_frames_are_decoded_however_they_are_cut(
        role in role(), all in prop::collection::vec(said(), 0..8), step in 1_usize..100_000
    ) {
        let bytes = written(role, &all);
        prop_assert_eq!(read(other(role), &bytes, step), Ok(all));
    }

    #[test]
    fn fragments_with_control_frames_between_them_are_one_message(
        role in role(),
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 2..6),
        step in 1_usize..700
    ) {
        let (mut bytes, last) = (Vec::new(), parts.len() - 1);
        for (n, part) in parts.iter().enumerate() {
            let mut frame = written(role, &[Said::Binary(part.clone())]);
            frame[0] = if n == 0 { 2 } else { 0 } | if n == last { FIN_BIT } else { 0 };
            bytes.extend(frame);
            if n < last {
                bytes.extend(written(role, &[Said::Ping(vec![n as u8])]));
            }
        }
        let all = read(other(role), &bytes, step).unwrap();
        prop_assert_eq!(all.len(), parts.len());
        prop_assert_eq!(all.last(), Some(&Said::Binary(parts.concat())));
    }

    #[test]
    fn arbitrary_bytes_hold_at_most_one_message(
        role in role(), bytes in prop::collection::vec(any::<u8>(), 0..2000), step in 1_usize..50
    ) {
        let _ = read(role, &bytes, step);
    }

    #[test]
    fn tungstenite_decodes_our_frames(
        role in role(), all in prop::collection::vec(said(), 0..6)
    ) {
        let bytes = written(role, &all);
        let mut peer = WebSocket::from_raw_socket(
            Heard(Cursor::new(bytes)), theirs(other(role)), Some(WebSocketConfig::default()));
        for said in all {
            let read = peer.read();
            match said {
                Said::Binary(body) => prop_assert_eq!(read.unwrap(), Message::binary(body)),
                Said::Ping(body) => prop_assert_eq!(read.unwrap(), Message::Ping(body.into())),
                Said::Pong(body) => prop_assert_eq!(read.unwrap(), Message::Pong(body.into())),
                // tungstenite validates close codes, and reads nothing after a close.
                Said::Close(_) => break,
            }
        }
    }

    #[test]
    fn frames_of_tungstenite_are_decoded(
        role in role(), all in prop::collection::vec(said(), 0..6), step in 1_usize..100_000
    ) {
        let mut peer = WebSocket::from_raw_socket(
            Cursor::new(Vec::new()), theirs(role), Some(WebSocketConfig::default()));
        let mut wanted = Vec::new();
        for said in all {
            let message = match said.clone() {
                Said::Binary(body) => Message::binary(body),
                Said::Ping(body) => Message::Ping(body.into()),
                Said::Pong(body) => Message::Pong(body.into()),
                Said::Close(_) => continue,
            };
            wanted.push(said);
            peer.write(message).unwrap();
            peer.flush().unwrap();
        }
        let bytes = peer.get_ref().get_ref();
        prop_assert_eq!(read(other(role), bytes, step), Ok(wanted));
    }
}

/// Frames that no honest hub sends; the agent decodes them.
#[test]
fn frames_forbidden_by_the_rfc_are_refused() {
    let long = |n: u64| [&[0x82, 127][..], &n.to_be_bytes()].concat();
    let table: Vec<(&str, Vec<u8>, WsError)> = vec![
        ("RSV1, as of an extension", vec![0xC2, 0], WsError::Reserved),
        ("RSV2", vec![0xA2, 0], WsError::Reserved),
        ("RSV3 of a control frame", vec![0x99, 0], WsError::Reserved),
        ("text", vec![0x81, 1, b'x'], WsError::Text),
        ("text in fragments", vec![0x01, 0], WsError::Text),
        ("data opcode 3", vec![0x83, 0], WsError::Opcode(3)),
        ("data opcode 7", vec![0x87, 0], WsError::Opcode(7)),
        ("control opcode 11", vec![0x8B, 0], WsError::Opcode(11)),
        ("control opcode 15", vec![0x8F, 0], WsError::Opcode(15)),
        ("masked by the hub", vec![0x82, 0x80], WsError::Mask),
        ("a fragmented ping", vec![0x09, 0], WsError::Control),
        ("a fragmented close", vec![0x08, 0], WsError::Control),
        ("a ping of 126", vec![0x89, 126], WsError::Control),
        ("a close of 64 bits", vec![0x88, 127], WsError::Control),
        ("125 in 16 bits", vec![0x82, 126, 0, 125], WsError::Length),
        ("0 in 16 bits", vec![0x82, 126, 0, 0], WsError::Length),
        ("65535 in 64 bits", long(0xFFFF), WsError::Length),
        ("one byte too many", long(65_537), WsError::TooLarge),
        ("more than there is", long(u64::MAX), WsError::TooLarge),
        ("the top bit", long(1 << 63), WsError::TooLarge),
        (
            "a continuation of nothing",
            vec![0x80, 0],
            WsError::Fragments,
        ),
        (
            "a message within a message",
            vec![0x02, 1, 7, 0x82, 0],
            WsError::Fragments,
        ),
        (
            "a continuation of a whole one",
            vec![0x82, 0, 0x00, 0],
            WsError::Fragments,
        ),
        ("half a close code", vec![0x88, 1, 3], WsError::Close),
    ];
    for (what, bytes, error) in table {
        for step in [1, bytes.len()] {
            assert_eq!(read(SocketRole::Agent, &bytes, step), Err(error), "{what}");
        }
    }
    // Frames that no honest agent sends.
    assert_eq!(read(SocketRole::Hub, &[0x82, 0], 1), Err(WsError::Mask));
}

#[test]
fn fragments_are_limited_in_total() {
    let mut decoder = Decoder::new(SocketRole::Agent);
    let part = |first: u8, n: usize| {
        let mut bytes = vec![first, 126];
        bytes.extend((n as u16).to_be_bytes());
        bytes.resize(4 + n, 1);
        bytes
    };
    let taken = decoder.decode(&mut part(0x02, 40_000)).unwrap().unwrap();
    assert_eq!(taken.event, Event::Part);
    // The head alone is enough to refuse it.
    let mut over = part(0x80, MESSAGE_LIMIT - 40_000 + 1);
    assert_eq!(decoder.decode(&mut over[..4]), Err(WsError::TooLarge));
    let last = decoder.decode(&mut part(0x80, MESSAGE_LIMIT - 40_000));
    assert_eq!(last.unwrap().unwrap().event, Event::Assembled);
    assert_eq!(decoder.assembled(), vec![1; MESSAGE_LIMIT]);
}

#[test]
fn oversized_bodies_are_not_encoded() {
    let mut encoder = Encoder::new(SocketRole::Agent);
    for (opcode, limit) in [(Opcode::Ping, CONTROL_LIMIT), (Opcode::Binary, 65_535)] {
        for (n, built) in [(limit, true), (limit + 1, false)] {
            let frame = encoder.frame(opcode, n, |out| out.put_bytes(0, n));
            assert_eq!(frame.is_ok(), built);
        }
    }
}

#[test]
fn frames_of_an_agent_have_distinct_masking_keys() {
    let mut encoder = Encoder::new(SocketRole::Agent);
    let mut keys = std::collections::HashSet::new();
    for _ in 0..200 {
        let frame = encoder.frame(Opcode::Binary, 0, |_| {}).unwrap();
        keys.insert(frame[2..6].to_vec());
    }
    assert!(keys.len() > 190, "{}", keys.len());
}
