use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use proptest::prelude::*;

use super::*;

fn masker(values: &[&str]) -> Masker {
    Masker::new(values).unwrap()
}

#[test]
fn each_form_is_masked() {
    let value = "p<a>&s \"w\"/ö+1\n~x";
    let masker = masker(&[value]);
    let json = serde_json::to_string(value).unwrap();
    let go = "p\\u003ca\\u003e\\u0026s \\\"w\\\"/ö+1\\n~x";
    for (text, expected) in [
        (format!("a{value}b"), "a***b".to_owned()),
        (format!("{{\"k\":{json}}}"), "{\"k\":\"***\"}".to_owned()),
        (
            serde_json::to_string(&json).unwrap(),
            "\"\\\"***\\\"\"".to_owned(),
        ),
        (go.to_owned(), MASK.to_owned()),
        (
            "?p=p%3Ca%3E%26s+%22w%22%2F%C3%B6%2B1%0A~x&q".to_owned(),
            "?p=***&q".to_owned(),
        ),
        (
            "p%3Ca%3E%26s%20%22w%22%2F%C3%B6%2B1%0A~x".to_owned(),
            MASK.to_owned(),
        ),
        (
            "p%3ca%3e%26s%20%22w%22%2f%c3%b6%2b1%0a~x".to_owned(),
            MASK.to_owned(),
        ),
        (
            "/p%3Ca%3E&s%20%22w%22%2F%C3%B6+1%0A~x/".to_owned(),
            "/***/".to_owned(),
        ),
        (STANDARD.encode(value), format!("{MASK}=")),
    ] {
        let padding = text.matches('=').count().min(2);
        let actual = masker.mask(&text);
        if text == STANDARD.encode(value) {
            assert_eq!(actual.trim_end_matches('='), MASK, "{padding}");
            continue;
        }
        assert_eq!(actual, expected);
    }
}

#[test]
fn short_values_stay_and_lines_are_masked() {
    assert_eq!(masker(&["12345", ""]).mask("12345"), "12345");
    assert_eq!(masker(&["123456"]).mask("x123456"), "x***");
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG\n-----END KEY-----\n";
    let masker = masker(&[key]);
    assert_eq!(masker.mask("log: MIIEvQIBADANBgkq hkiG"), "log: *** hkiG");
    assert_eq!(masker.mask(key.trim()), MASK);
    assert_eq!(masker.mask(key), MASK);
}

#[test]
fn overlapping_values_leave_no_rest() {
    let masker = masker(&["abcdefgh", "efghijkl", "abcdefghijklmnop"]);
    assert_eq!(masker.mask("-abcdefghijkl-"), "-***-");
    assert_eq!(masker.mask("-abcdefghijklmnop-"), "-***-");
    assert_eq!(masker.mask("abcdefgh efghijkl"), "*** ***");
}

#[test]
fn flood_of_a_value_is_held_back_in_part_only() {
    let masker = masker(&["aaaaaa"]);
    let mut stream = masker.stream();
    let mut out = Vec::new();
    for _ in 0..1000 {
        stream.push(&[b'a'; 100], &mut out);
    }
    stream.push(b"b", &mut out);
    stream.finish(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "***b");
}

#[test]
fn text_without_values_passes_at_once() {
    let masker = Masker::new::<&str>([]).unwrap();
    let mut stream = masker.stream();
    let mut out = Vec::new();
    stream.push(b"abc", &mut out);
    assert_eq!(out, b"abc");
}

#[test]
fn values_are_bounded_and_not_printed() {
    let value = "x".repeat(MAX_VALUES_BYTES + 1);
    assert_eq!(
        Masker::new([&value]).unwrap_err(),
        MaskError::TooLarge(MAX_VALUES_BYTES + 1)
    );
    assert!(!format!("{:?}", masker(&["hunter2hunter2"])).contains("hunter2"));
    let value: Vec<u8> = (0..MAX_VALUES_BYTES)
        .map(|at| (at * at % 251) as u8)
        .collect();
    let largest = Masker::new([&value]).unwrap();
    let bytes = largest.matcher.memory_usage();
    assert!(bytes < 20 << 20, "{bytes} bytes");
}

/// True if a text has 5 bytes of the value, raw or after base64 at any offset.
fn leaks(text: &[u8], value: &[u8]) -> bool {
    let has = |haystack: &[u8]| {
        value
            .windows(5)
            .any(|piece| haystack.windows(piece.len()).any(|it| it == piece))
    };
    if has(text) {
        return true;
    }
    let standard: Vec<u8> = text
        .iter()
        .map(|it| match it {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    (0..4).any(|start| {
        let Some(text) = standard.get(start..) else {
            return false;
        };
        // Decodes all runs of base64, in steps of four characters.
        text.split(|it| !it.is_ascii_alphanumeric() && *it != b'+' && *it != b'/')
            .any(|run| {
                let whole = run.len() / 4 * 4;
                STANDARD.decode(&run[..whole]).is_ok_and(|it| has(&it))
            })
    })
}

proptest! {
    #[test]
    fn canary_leaks_in_no_alignment(
        value in prop::collection::vec(any::<u8>(), 6..40),
        before in prop::collection::vec(any::<u8>(), 0..7),
        after in prop::collection::vec(any::<u8>(), 0..7),
        is_url in any::<bool>(),
        size in 1_usize..20,
    ) {
        prop_assume!(value.iter().collect::<std::collections::BTreeSet<_>>().len() > 4);
        let plain = [before.clone(), value.clone(), after.clone()].concat();
        let text = if is_url { URL_SAFE.encode(&plain) } else { STANDARD.encode(&plain) };
        let masker = Masker::new([&value]).unwrap();
        for text in [text.as_bytes(), &plain] {
            let mut stream = masker.stream();
            let mut out = Vec::new();
            text.chunks(size).for_each(|it| stream.push(it, &mut out));
            stream.finish(&mut out);
            prop_assert!(!leaks(&out, &value), "{:?}", String::from_utf8_lossy(&out));
            prop_assert!(out.windows(3).any(|it| it == MASK.as_bytes()));
        }
    }

    #[test]
    fn chunks_of_any_bytes_do_not_change_the_result(
        values in prop::collection::vec(prop::collection::vec(b'A'..b'E', 6..9), 0..3),
        chunks in prop::collection::vec(prop::collection::vec(b'A'..b'E', 0..30), 0..8),
        is_encoded in any::<bool>(),
    ) {
        let masker = Masker::new(&values).unwrap();
        let size = chunks.first().map_or(1, Vec::len).max(1);
        let plain = chunks.concat();
        let text = if is_encoded { STANDARD.encode(&plain).into_bytes() } else { plain };
        let mut stream = masker.stream();
        let mut out = Vec::new();
        text.chunks(size).for_each(|it| stream.push(it, &mut out));
        stream.finish(&mut out);
        prop_assert_eq!(out, masker.mask_bytes(&text));
    }

    #[test]
    fn chunks_do_not_change_the_result(
        text in "[ab]{0,60}",
        values in prop::collection::vec("[ab]{6,9}", 0..4),
        size in 1_usize..12,
    ) {
        let masker = Masker::new(&values).unwrap();
        let mut stream = masker.stream();
        let mut out = Vec::new();
        text.as_bytes().chunks(size).for_each(|it| stream.push(it, &mut out));
        stream.finish(&mut out);
        let out = String::from_utf8(out).unwrap();
        // The reference marks each byte of each occurrence.
        let mut marks = vec![false; text.len()];
        for value in &values {
            for at in 0..text.len() {
                if text[at..].starts_with(value) {
                    marks[at..at + value.len()].fill(true);
                }
            }
        }
        let mut expected = String::new();
        for (at, letter) in text.chars().enumerate() {
            if !marks[at] {
                expected.push(letter);
            } else if at == 0 || !marks[at - 1] {
                expected.push_str(MASK);
            }
        }
        prop_assert_eq!(out, expected);
    }
}
