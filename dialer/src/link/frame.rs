//! Messages of a link: one binary WebSocket message each, a tag byte and a body. Encoding and decoding only.
//!
//! ```text
//! tag  name      body, numbers big-endian
//! 1    HELLO     lowest version u8, highest version u8, session 16 bytes, received u64, max message u32, max streams u32
//! 2    DATA      1 byte or more of the session's bytes
//! 3    PROBE      u64: DATA bytes that the sender has sent on this session so far
//! 4    PROBE_ACK  u64: the count of the acknowledged PROBE
//! 5    CLOSE     u16: reason (see `CloseReason`)
//! 6    CHALLENGE nonce 32 bytes
//! 7    PROOF     nonce 32 bytes, received u64, proof 32 bytes
//! 8    RESUMED   received u64, proof 32 bytes
//! ```
//!
//! HELLO is the first message each way and is sent once. The agent offers the versions it speaks and the session to
//! resume (zeros: a new one). The hub answers with the chosen version as lowest and highest, and the session's name:
//! the agent's if it knows that session, else a new one; zeros if the session ends with its link. Without a common
//! version it answers with all versions it speaks, then CLOSE. `received` is zero. `max message` is the largest message
//! that the sender accepts, tag included; `max streams` its limit of open streams.
//!
//! A session outlives its links. If the hub's HELLO names the requested session, the hub sends CHALLENGE, the agent
//! PROOF, the hub RESUMED (see `wire/resume`). `received` is then the count of DATA bytes that have arrived; each side
//! continues with the first byte that the other has not received.
//!
//! CLOSE is outside of the inner TLS, so it proves nothing: on a running session it counts as a cut. The end of a session
//! is a GOAWAY of yamux inside of the inner TLS.
//!
//! If the HELLO names another session, either side may decline it with CLOSE: an agent that wants only its own session,
//! or a draining hub.
//!
//! Lengths are exact: an extra byte is an error, so that a later version can use it.

use bytes::{BufMut, Bytes, BytesMut};

const HELLO_TAG: u8 = 1;
pub(crate) const DATA_TAG: u8 = 2;
const PROBE_TAG: u8 = 3;
const PROBE_ACK_TAG: u8 = 4;
const CLOSE_TAG: u8 = 5;
const CHALLENGE_TAG: u8 = 6;
const PROOF_TAG: u8 = 7;
const RESUMED_TAG: u8 = 8;

/// Name of a session, by which a later link resumes it.
pub type SessionId = [u8; 16];
/// Random bytes of one end, used on one link only.
pub type Nonce = [u8; 32];
/// HMAC-SHA256.
pub type Mac = [u8; 32];

/// One message, borrowed from the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Start of the link.
    Hello(LinkHello),
    /// Bytes of the session.
    Data(&'a [u8]),
    /// Ack probe with the count of sent bytes.
    Probe(u64),
    /// Acknowledgement of the probe with this count.
    ProbeAck(u64),
    /// End of the link, with the code of a reason that proves nothing.
    Close(u16),
    /// The hub's nonce.
    Challenge(Nonce),
    /// Proof of the agent, with its count of received DATA bytes.
    Proof {
        /// The agent's nonce.
        nonce: Nonce,
        /// Count of received DATA bytes.
        received: u64,
        /// Proof over both nonces, session and count.
        mac: Mac,
    },
    /// Proof of the hub, with its count of received DATA bytes.
    Resumed {
        /// Count of received DATA bytes.
        received: u64,
        /// Proof over both nonces, session and count.
        mac: Mac,
    },
}

/// First message of each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkHello {
    /// Lowest supported version.
    pub lowest: u8,
    /// Highest supported version.
    pub highest: u8,
    /// Session to resume, or the session named by the hub.
    pub session: SessionId,
    /// Always zero: counts are exchanged with the proofs.
    pub received: u64,
    /// Largest accepted message, in bytes with the tag.
    pub max_message: u32,
    /// Limit of open streams on this side.
    pub max_streams: u32,
}

/// Reason for refusing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No tag.
    #[error("an empty message")]
    Empty,
    /// Unknown tag.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// Wrong length for this tag.
    #[error("wrong length of a message with tag {0}")]
    Length(u8),
    /// Lowest version above the highest.
    #[error("lowest version above the highest")]
    Versions,
}

/// Decodes one message.
///
/// # Errors
///
/// For anything but a message exactly as described above.
pub fn decode(message: &[u8]) -> Result<Frame<'_>, FrameError> {
    let (&tag, body) = message.split_first().ok_or(FrameError::Empty)?;
    let wrong = FrameError::Length(tag);
    match tag {
        HELLO_TAG => hello(body).ok_or(wrong)?,
        DATA_TAG if body.is_empty() => Err(wrong),
        DATA_TAG => Ok(Frame::Data(body)),
        PROBE_TAG => count(body).map(Frame::Probe).ok_or(wrong),
        PROBE_ACK_TAG => count(body).map(Frame::ProbeAck).ok_or(wrong),
        CLOSE_TAG => body
            .try_into()
            .map(|code| Frame::Close(u16::from_be_bytes(code)))
            .map_err(|_| wrong),
        CHALLENGE_TAG => {
            let nonce = body.try_into().map_err(|_| wrong)?;
            Ok(Frame::Challenge(nonce))
        }
        PROOF_TAG => proof(body).ok_or(wrong),
        RESUMED_TAG => resumed(body).ok_or(wrong),
        _ => Err(FrameError::Tag(tag)),
    }
}

fn proof(body: &[u8]) -> Option<Frame<'static>> {
    let (&nonce, rest) = body.split_first_chunk::<32>()?;
    let (&received, rest) = rest.split_first_chunk::<8>()?;
    Some(Frame::Proof {
        nonce,
        received: u64::from_be_bytes(received),
        mac: rest.try_into().ok()?,
    })
}

fn resumed(body: &[u8]) -> Option<Frame<'static>> {
    let (&received, rest) = body.split_first_chunk::<8>()?;
    Some(Frame::Resumed {
        received: u64::from_be_bytes(received),
        mac: rest.try_into().ok()?,
    })
}

fn count(body: &[u8]) -> Option<u64> {
    body.try_into().ok().map(u64::from_be_bytes)
}

fn hello(body: &[u8]) -> Option<Result<Frame<'static>, FrameError>> {
    let (&[lowest, highest], rest) = body.split_first_chunk::<2>()?;
    let (&session, rest) = rest.split_first_chunk::<16>()?;
    let (&received, rest) = rest.split_first_chunk::<8>()?;
    let (&max_message, rest) = rest.split_first_chunk::<4>()?;
    let (&max_streams, rest) = rest.split_first_chunk::<4>()?;
    if !rest.is_empty() {
        return None;
    }
    if lowest > highest {
        return Some(Err(FrameError::Versions));
    }
    Some(Ok(Frame::Hello(LinkHello {
        lowest,
        highest,
        session,
        received: u64::from_be_bytes(received),
        max_message: u32::from_be_bytes(max_message),
        max_streams: u32::from_be_bytes(max_streams),
    })))
}

impl Frame<'_> {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match *self {
            Frame::Hello(hello) => {
                out.put_slice(&[HELLO_TAG, hello.lowest, hello.highest]);
                out.put_slice(&hello.session);
                out.put_u64(hello.received);
                out.put_u32(hello.max_message);
                out.put_u32(hello.max_streams);
            }
            Frame::Data(data) => {
                out.reserve(1 + data.len());
                out.put_u8(DATA_TAG);
                out.put_slice(data);
            }
            Frame::Probe(count) => {
                out.put_u8(PROBE_TAG);
                out.put_u64(count);
            }
            Frame::ProbeAck(count) => {
                out.put_u8(PROBE_ACK_TAG);
                out.put_u64(count);
            }
            Frame::Close(code) => {
                out.put_u8(CLOSE_TAG);
                out.put_u16(code);
            }
            Frame::Challenge(nonce) => {
                out.put_u8(CHALLENGE_TAG);
                out.put_slice(&nonce);
            }
            Frame::Proof {
                nonce,
                received,
                mac,
            } => {
                out.put_u8(PROOF_TAG);
                out.put_slice(&nonce);
                out.put_u64(received);
                out.put_slice(&mac);
            }
            Frame::Resumed { received, mac } => {
                out.put_u8(RESUMED_TAG);
                out.put_u64(received);
                out.put_slice(&mac);
            }
        }
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = (Vec<u8>, u8)> {
        (prop::collection::vec(any::<u8>(), 1..64), 0_u8..8)
    }

    fn frame<'a>(kind: u8, data: &'a [u8]) -> Frame<'a> {
        let n = data
            .iter()
            .fold(0_u64, |n, &b| n.wrapping_mul(257).wrapping_add(b.into()));
        match kind {
            0 => Frame::Hello(LinkHello {
                lowest: data[0] / 2,
                highest: data[0],
                session: [data[0]; 16],
                received: n,
                max_message: n as u32,
                max_streams: (n >> 32) as u32,
            }),
            1 => Frame::Data(data),
            2 => Frame::Probe(n),
            3 => Frame::ProbeAck(n),
            4 => Frame::Close(n as u16),
            5 => Frame::Challenge([data[0]; 32]),
            6 => Frame::Proof {
                nonce: [data[0]; 32],
                received: n,
                mac: [!data[0]; 32],
            },
            _ => Frame::Resumed {
                received: n,
                mac: [data[0]; 32],
            },
        }
    }

    proptest! {
        #[test]
        fn message_is_decoded_as_it_was_encoded((data, kind) in frames()) {
            let frame = frame(kind, &data);
            let message = frame.encode();
            prop_assert_eq!(decode(&message), Ok(frame));
        }

        #[test]
        fn decoded_bytes_are_the_canonical_encoding(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(frame) = decode(&bytes) {
                prop_assert_eq!(&frame.encode()[..], &bytes[..]);
            }
        }

        #[test]
        fn message_of_another_length_is_refused((data, kind) in frames()) {
            prop_assume!(kind != 1);
            let whole = frame(kind, &data).encode();
            prop_assert!(decode(&whole[..whole.len() - 1]).is_err());
            let longer = [&whole[..], &[0]].concat();
            prop_assert!(decode(&longer).is_err());
        }
    }

    #[test]
    fn invalid_message_has_a_specific_error() {
        assert_eq!(decode(&[]), Err(FrameError::Empty));
        assert_eq!(decode(&[9, 1]), Err(FrameError::Tag(9)));
        assert_eq!(decode(&[2]), Err(FrameError::Length(2)));
        assert_eq!(decode(&[5, 1]), Err(FrameError::Length(5)));
        let mut hello = frame(0, &[4]).encode().to_vec();
        hello[1] = 5;
        assert_eq!(decode(&hello), Err(FrameError::Versions));
    }
}
