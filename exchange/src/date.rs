//! `Date` of a response. Its text is made once per second and thread.

use std::{
    cell::RefCell,
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::BytesMut;
use httpdate::HttpDate;

use crate::fields::field;

thread_local! {
    static DATE: RefCell<DateText> = RefCell::default();
}

#[derive(Default)]
struct DateText {
    /// Time of the text, in seconds since 1970.
    seconds: u64,
    text: String,
}

/// Appends the field `Date`.
pub(crate) fn write_date(out: &mut BytesMut) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |it| it.as_secs());
    DATE.with_borrow_mut(|date| {
        if date.seconds != seconds || date.text.is_empty() {
            date.seconds = seconds;
            date.text.clear();
            let time = HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds));
            let _never = write!(date.text, "{time}");
        }
        field(out, "date", date.text.as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_that_of_now() {
        let before = SystemTime::now() - Duration::from_secs(1);
        for _ in 0..2 {
            let mut out = BytesMut::new();
            write_date(&mut out);
            let text = std::str::from_utf8(&out).unwrap();
            let text = text.strip_prefix("date: ").unwrap().trim_end();
            let date = httpdate::parse_http_date(text).unwrap();
            assert!(date >= before && date <= SystemTime::now());
        }
    }
}
