//! Timestamp of a log line, in the format of `tracing_subscriber`. All but the last digits are formatted once per
//! second.

use std::{
    cell::RefCell,
    fmt::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use time::OffsetDateTime;
use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

use super::digits::Digits;

thread_local! {
    /// The last second and its text.
    static SECOND: RefCell<(u64, String)> = RefCell::default();
}

pub(super) struct LogTimer;

impl FormatTime for LogTimer {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        write(now.unwrap_or_default(), to)
    }
}

fn write(now: Duration, to: &mut impl Write) -> fmt::Result {
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now.as_secs() || text.is_empty() {
            (*second, *text) = (now.as_secs(), spelled(now.as_secs()));
        }
        to.write_str(text)
    })?;
    to.write_char('.')?;
    to.write_str(Digits::of(now.subsec_micros().into()).at_least(6))?;
    to.write_char('Z')
}

/// As the timer, at the end of a line in bytes.
pub(super) fn write_bytes(now: Duration, to: &mut Vec<u8>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl Write for Bytes<'_> {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0.extend_from_slice(part.as_bytes());
            Ok(())
        }
    }
    // Only a failing writer causes an error, and a vector never fails.
    let _ = write(now, &mut Bytes(to));
}

fn spelled(second: u64) -> String {
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(second).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = time.to_hms();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_equals_that_of_the_library() {
        for (micros, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_709_164_799_999_999, "2024-02-28T23:59:59.999999Z"),
            (1_709_164_800_000_007, "2024-02-29T00:00:00.000007Z"),
        ] {
            let mut text = String::new();
            write(Duration::from_micros(micros), &mut text).unwrap();
            assert_eq!(text, expected);
        }
        let (mut ours, mut theirs) = (String::new(), String::new());
        LogTimer.format_time(&mut Writer::new(&mut ours)).unwrap();
        let library = tracing_subscriber::fmt::time::SystemTime;
        library.format_time(&mut Writer::new(&mut theirs)).unwrap();
        assert_eq!(ours.len(), theirs.len());
        assert!(ours <= theirs, "{ours} was before {theirs}");
    }
}
