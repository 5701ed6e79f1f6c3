//! Protocol violations of a peer, as far as the stream layer can detect them.

use crate::close::CloseReason;

/// Violation of yamux by the peer. It ends this session only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Unsupported version of a frame.
    #[error("a frame of version {0}")]
    Version(u8),
    /// Unknown frame type.
    #[error("a frame of the unknown type {0}")]
    Kind(u8),
    /// Unknown flags.
    #[error("a frame with the unknown flags {0:#06x}")]
    Flags(u16),
    /// A stream frame with number 0, or a session frame with another number.
    #[error("a frame of this type for stream {0}")]
    Stream(u32),
    /// A new stream with a number of this side.
    #[error("stream {0} has a number of this side")]
    Parity(u32),
    /// A stream number that was used before.
    #[error("stream {0} was opened twice, or far out of order")]
    OpenedTwice(u32),
    /// A frame for an unknown stream.
    #[error("a frame for stream {0}, which was never opened")]
    NeverOpened(u32),
    /// More data than the window allows.
    #[error("{length} bytes for stream {stream} exceed the {left} left in its window")]
    Window {
        /// Number of the stream.
        stream: u32,
        /// Length of the frame.
        length: u32,
        /// Bytes left in the window.
        left: u32,
    },
    /// A window above the range of 32 bits.
    #[error("the window of stream {0} exceeds 32 bits")]
    Credit(u32),
    /// Data after a FIN.
    #[error("data for stream {0} after its end")]
    BehindEnd(u32),
    /// Too many unanswered pings.
    #[error("too many unanswered pings")]
    Pings,
}

impl Violation {
    /// Metric label.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Violation::Version(_) => "frame_version",
            Violation::Kind(_) => "frame_type",
            Violation::Flags(_) => "frame_flags",
            Violation::Stream(_) | Violation::Parity(_) => "stream_number",
            Violation::OpenedTwice(_) => "stream_opened_twice",
            Violation::NeverOpened(_) => "stream_never_opened",
            Violation::Window { .. } => "stream_window",
            Violation::Credit(_) => "stream_credit",
            Violation::BehindEnd(_) => "stream_behind_end",
            Violation::Pings => "pings",
        }
    }
}

/// Reason to stop reading from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The peer broke the protocol.
    Violation(Violation),
    /// The peer ends the session.
    GoAway(CloseReason),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Stop::Violation(violation)
    }
}
