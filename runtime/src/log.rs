//! Logging to stderr, as text or as JSON lines. The default filter is `info`; filters have the syntax of
//! `tracing_subscriber::EnvFilter`.
//!
//! A busy hub writes a line per request, and a system call per line would be a third of its work. So lines are buffered
//! for up to 50 ms and written together. Warnings, errors, and all lines on a terminal are written at once.

mod clock;
mod digits;
mod direct;
mod fields;

use std::{
    io::{IsTerminal, Write},
    str::FromStr,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::sync::Notify;
use tracing_subscriber::{
    EnvFilter,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

pub use self::direct::{InfoLine, info_line};

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Readable text.
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for Format {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            _ => Err("a log format is text or json"),
        }
    }
}

/// Dependencies that log errors which their caller reports too, such as an untrusted certificate.
const SILENCED_TARGETS: &str = "rustls_platform_verifier=off";

/// Parses a filter. Directives for the silenced dependencies override the default.
///
/// # Errors
/// The mistake in the filter.
pub fn filter(text: &str) -> Result<EnvFilter, String> {
    let wanted = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
    // The last directive for a target wins.
    let filter = EnvFilter::try_new(format!("{SILENCED_TARGETS},{text}"));
    Ok(filter.unwrap_or(wanted))
}

/// Maximum time of a line in the buffer.
const MAX_BUFFER_TIME: Duration = Duration::from_millis(50);
/// Buffer size in bytes that triggers a write.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// Buffer of lines for stderr.
#[derive(Default)]
struct Lines {
    buffered: Mutex<Vec<u8>>,
    non_empty: Notify,
}

static LINES: LazyLock<Lines> = LazyLock::new(Lines::default);

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, part: &[u8], at_once: bool) {
        let mut buffered = self.lock();
        let first = buffered.is_empty();
        buffered.extend_from_slice(part);
        let full = buffered.len() >= MAX_BUFFER_BYTES;
        drop(buffered);
        if full || at_once {
            self.flush();
        } else if first {
            self.non_empty.notify_one();
        }
    }

    fn flush(&self) {
        let mut buffered = self.lock();
        // A closed stderr leaves nowhere to report to.
        let _ = std::io::stderr().lock().write_all(&buffered);
        buffered.clear();
    }
}

/// Writer of one line, in parts.
struct Line {
    at_once: bool,
}

impl Write for Line {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        LINES.append(part, self.at_once);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        LINES.flush();
        Ok(())
    }
}

struct MakeLine {
    terminal: bool,
}

impl<'a> MakeWriter<'a> for MakeLine {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { at_once: true }
    }

    fn make_writer_for(&'a self, about: &tracing::Metadata<'_>) -> Line {
        Line {
            at_once: self.terminal || *about.level() <= tracing::Level::WARN,
        }
    }
}

/// Writes buffered lines when they are due. Runs for the life of the process.
pub async fn write_buffered() {
    loop {
        LINES.non_empty.notified().await;
        tokio::time::sleep(MAX_BUFFER_TIME).await;
        LINES.flush();
    }
}

/// Writes the buffer; the last action of a process.
pub fn flush() {
    LINES.flush();
}

/// Starts logging; a second call changes nothing. [`write_buffered`] has to run too.
pub fn start(format: Format, filter: EnvFilter) {
    let registry = tracing_subscriber::registry().with(filter);
    let terminal = std::io::stderr().is_terminal();
    let lines = fmt::layer()
        .with_timer(clock::LogTimer)
        .with_writer(MakeLine { terminal });
    let is_plain_text = format == Format::Text && !terminal;
    let started = match format {
        Format::Text if terminal => registry.with(lines).try_init(),
        Format::Text => registry
            .with(lines.with_ansi(false).fmt_fields(fields::Fields))
            .try_init(),
        Format::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    // Fails only if logging was started before, which is as good.
    if started.is_ok() {
        direct::TAKES_LINES.store(is_plain_text, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_that_repeats_errors_is_silent_unless_it_is_named() {
        let text = |filter: &str| super::filter(filter).unwrap().to_string();
        assert!(text("info").contains(SILENCED_TARGETS));
        assert!(text("").contains(SILENCED_TARGETS));
        let named = text("rustls_platform_verifier=debug,info");
        assert!(named.contains("rustls_platform_verifier=debug"), "{named}");
        assert!(!named.contains(SILENCED_TARGETS), "{named}");
        assert!(super::filter("a=b=c").is_err());
    }
}
