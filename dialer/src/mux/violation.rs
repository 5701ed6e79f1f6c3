//! What a peer can do wrong, as far as the protocol of streams can tell.

/// What a peer did that no yamux may do. It ends the session, and only that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("a frame of version {0}")]
    Version(u8),
    #[error("a frame of the unknown type {0}")]
    Kind(u8),
    #[error("a frame with the unknown flags {0:#06x}")]
    Flags(u16),
    /// A frame about a stream has number 0, or one about the session has another.
    #[error("a frame of this type for stream {0}")]
    Stream(u32),
    #[error("stream {0} has a number that is ours to give")]
    Parity(u32),
    #[error("stream {0} was opened twice, or far out of order")]
    OpenedTwice(u32),
    #[error("a frame for stream {0}, which was never opened")]
    NeverOpened(u32),
    /// More data than the window allows.
    #[error("{length} bytes for stream {stream}, whose window has {left} left")]
    Window { stream: u32, length: u32, left: u32 },
    #[error("the window of stream {0} grew beyond what a number can say")]
    Credit(u32),
    #[error("data for stream {0} behind its end")]
    BehindEnd(u32),
    #[error("more pings than are answered at a time")]
    Pings,
}

impl Violation {
    /// A word to count it by.
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
