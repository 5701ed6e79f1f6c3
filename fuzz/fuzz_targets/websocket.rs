//! Any bytes are rejected or read as frames, in either role, the same however they are split. A message never
//! exceeds the limit, and a frame that was read is written back unchanged.
#![no_main]

use fairlead_dialer::websocket::{Decoder, Encoder, Event, MESSAGE_LIMIT, Opcode, SocketRole, WsError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, bytes)) = bytes.split_first() else {
        return;
    };
    for (role, peer) in [(SocketRole::Agent, SocketRole::Hub), (SocketRole::Hub, SocketRole::Agent)] {
        let (whole, wrong) = read(role, bytes, bytes.len().max(1));
        let (cut, cut_wrong) = read(role, bytes, usize::from(step).max(1));
        assert_eq!((&whole, wrong), (&cut, cut_wrong));
        assert!(whole.iter().all(|message| message.len() <= MESSAGE_LIMIT));
        // Longer messages use a 64-bit length, which we never write.
        for message in whole.iter().filter(|message| message.len() < MESSAGE_LIMIT) {
            let frame = Encoder::new(peer)
                .frame(Opcode::Binary, message.len(), |out| out.extend_from_slice(message))
                .expect("a received message is short enough");
            assert_eq!(read(role, &frame, frame.len()), (vec![message.clone()], None));
        }
    }
});

/// The binary messages before the first error, and that error.
fn read(role: SocketRole, bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<WsError>) {
    let mut decoder = Decoder::new(role);
    let (mut inbox, mut messages) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        inbox.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut inbox) {
                Err(error) => return (messages, Some(error)),
                Ok(None) => break,
                Ok(Some(frame)) => {
                    match frame.event {
                        Event::Whole => messages.push(inbox[frame.head..frame.end].to_vec()),
                        Event::Assembled => messages.push(decoder.assembled()),
                        Event::Part | Event::Ping | Event::Pong | Event::Close(_) => {}
                    }
                    inbox.drain(..frame.end);
                }
            }
        }
    }
    (messages, None)
}
