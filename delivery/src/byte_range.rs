//! Ranges of bytes in requests (RFC 9110, section 14).

use std::ops::Range;

use http::{HeaderMap, HeaderValue, header};

/// Range of a request, as a part of a whole of `total` bytes; `None` for an empty part, which lies behind the whole.
///
/// An unreadable header is ignored, as one with several ranges is.
pub(crate) fn wanted(headers: &HeaderMap, total: u64) -> Option<Option<Range<u64>>> {
    let text = headers.get(header::RANGE)?.to_str().ok()?;
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (first, last) {
        ("", last) => total.saturating_sub(last.parse().ok()?)..total,
        (first, "") => first.parse().ok()?..total,
        (first, last) => {
            let last: u64 = last.parse().ok()?;
            first.parse().ok()?..last.saturating_add(1).min(total)
        }
    };
    Some(Some(range).filter(|it| !it.is_empty()))
}

/// Header `Content-Range` of a part, or of an answer without one.
pub(crate) fn content_range(part: Option<&Range<u64>>, total: u64) -> HeaderMap {
    let text = match part {
        Some(part) => format!("bytes {}-{}/{total}", part.start, part.end - 1),
        None => format!("bytes */{total}"),
    };
    let value = HeaderValue::try_from(text).ok();
    HeaderMap::from_iter(value.map(|it| (header::CONTENT_RANGE, it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_within_the_whole() {
        for (text, expected) in [
            ("bytes=2-", Some(Some(2..10))),
            ("bytes=2-4", Some(Some(2..5))),
            ("bytes=7-7", Some(Some(7..8))),
            ("bytes=0-99", Some(Some(0..10))),
            ("bytes=0-18446744073709551615", Some(Some(0..10))),
            ("bytes=-3", Some(Some(7..10))),
            ("bytes=-99", Some(Some(0..10))),
            ("bytes=10-", Some(None)),
            ("bytes=5-4", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=x-", None),
            ("lines=1-", None),
            ("bytes=1-2,4-5", None),
        ] {
            let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(text))]);
            assert_eq!(wanted(&headers, 10), expected, "{text}");
        }
        assert_eq!(wanted(&HeaderMap::new(), 10), None);
    }
}
