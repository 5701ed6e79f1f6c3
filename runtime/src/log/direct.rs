//! Lines past `tracing_subscriber`, for an event of each request: its general machinery costs more than the rest of the line.

use std::{
    cell::Cell,
    fmt::Display,
    io::Write as _,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{LINES, clock, digits::Digits};
use crate::plain_text::is_printable;

/// True once the log takes such lines: as text, and not on a terminal.
pub(super) static TAKES_LINES: AtomicBool = AtomicBool::new(false);
/// Memory that a thread keeps for its next line, in bytes.
const MAX_SCRATCH_BYTES: usize = 4096;

/// Fields of a line, in their order.
pub struct InfoLine<'a>(&'a mut Vec<u8>);

impl InfoLine<'_> {
    fn key(&mut self, name: &str) {
        self.put([b" ", name.as_bytes(), b"="]);
    }

    /// Appends parts, which are short, with one growth at most.
    #[inline]
    fn put<const N: usize>(&mut self, parts: [&[u8]; N]) {
        self.0.reserve(parts.iter().map(|it| it.len()).sum());
        for part in parts {
            self.0.extend_from_slice(part);
        }
    }

    /// A text in quotes.
    pub fn text(&mut self, name: &str, value: &str) {
        if is_printable(value) {
            return self.put([b" ", name.as_bytes(), b"=\"", value.as_bytes(), b"\""]);
        }
        self.key(name);
        // Only a failing writer causes an error, and a vector never fails.
        let _ = write!(self.0, "{value:?}");
    }

    /// As [`InfoLine::text`]; nothing for `None`.
    pub fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// A number.
    pub fn number(&mut self, name: &str, value: u64) {
        self.key(name);
        self.digits(value);
    }

    /// Any other value, without quotes.
    pub fn shown(&mut self, name: &str, value: impl Display) {
        self.key(name);
        let _ = write!(self.0, "{value}");
    }

    /// An address with its port.
    pub fn address(&mut self, name: &str, value: SocketAddr) {
        let SocketAddr::V4(v4) = value else {
            return self.shown(name, value);
        };
        self.key(name);
        for (at, octet) in v4.ip().octets().into_iter().enumerate() {
            if at > 0 {
                self.0.push(b'.');
            }
            self.digits(octet.into());
        }
        self.0.push(b':');
        self.digits(v4.port().into());
    }

    fn digits(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(digit @ 0..10) => self.0.push(b'0' + digit),
            _ => self.0.extend_from_slice(Digits::of(value).bytes()),
        }
    }
}

/// Writes a line of level `INFO`; false if the log takes none, and the event has to go to `tracing`.
///
/// The caller checks before that the level is enabled for the target.
pub fn info_line(
    at: SystemTime,
    target: &str,
    message: &str,
    fields: impl FnOnce(&mut InfoLine<'_>),
) -> bool {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    if !TAKES_LINES.load(Ordering::Relaxed) {
        return false;
    }
    let at = at.duration_since(UNIX_EPOCH);
    // A thread at its end has no buffer of its own any more.
    let mut line = SCRATCH.try_with(Cell::take).unwrap_or_default();
    line.clear();
    encode(at.unwrap_or_default(), (target, message), fields, &mut line);
    LINES.append(&line, false);
    if line.capacity() <= MAX_SCRATCH_BYTES {
        let _ = SCRATCH.try_with(|scratch| scratch.set(line));
    }
    true
}

fn encode(
    now: Duration,
    (target, message): (&str, &str),
    fields: impl FnOnce(&mut InfoLine<'_>),
    to: &mut Vec<u8>,
) {
    clock::write_bytes(now, to);
    to.extend_from_slice(b"  INFO ");
    to.extend_from_slice(target.as_bytes());
    to.extend_from_slice(b": ");
    to.extend_from_slice(message.as_bytes());
    fields(&mut InfoLine(to));
    to.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::{info, subscriber::with_default};
    use tracing_subscriber::{fmt::layer, layer::SubscriberExt, registry};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(part);
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn theirs(path: &str, caller: Option<&str>, peer: SocketAddr) -> String {
        let page = Page::default();
        let lines = page.clone();
        let layer = layer()
            .with_writer(move || lines.clone())
            .with_ansi(false)
            .without_time();
        with_default(registry().with(layer), || {
            info!(
                target: "audit",
                request = "00ff",
                caller,
                path,
                millis = 12_u64,
                code = tracing::field::display("FL-1205"),
                peer = %peer,
                "request"
            );
        });
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn line_equals_that_of_the_library() {
        for (path, caller) in [
            ("/api/v1/pods?a=b", Some("ann")),
            ("/a\"b\\c\u{1b}d\u{e9}\n", None),
            ("", Some("")),
        ] {
            for peer in ["192.0.2.1:4000", "10.200.0.9:0", "[2001:db8::1]:1"] {
                let peer = peer.parse().unwrap();
                let mut ours = Vec::new();
                let fields = |line: &mut InfoLine<'_>| {
                    line.text("request", "00ff");
                    line.optional("caller", caller);
                    line.text("path", path);
                    line.number("millis", 12);
                    line.shown("code", "FL-1205");
                    line.address("peer", peer);
                };
                encode(Duration::ZERO, ("audit", "request"), fields, &mut ours);
                let ours = String::from_utf8(ours).unwrap();
                let ours = ours.strip_prefix("1970-01-01T00:00:00.000000Z ").unwrap();
                assert_eq!(ours, theirs(path, caller, peer));
            }
        }
    }
}
