//! Forms in which programs print a value.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use crate::matcher::Edges;

/// Shorter values are not masked.
pub(super) const MIN_BYTES: usize = 6;

/// Shorter lines of a value are not masked on their own, because they may be words like `enabled: true`.
const MIN_LINE_BYTES: usize = 16;
/// Characters that percent encodings keep, beside letters and digits: of forms, of path segments, and of ECMAScript.
const KEPT: [&[u8]; 3] = [b"-._~", b"-._~$&+=:@", b"-._~!'()*"];

/// Forms of a value, and the edges of base64 forms.
pub(super) fn of(value: &[u8]) -> Vec<(Vec<u8>, Edges)> {
    let mut forms = Vec::new();
    if value.len() < MIN_BYTES {
        return forms;
    }
    escaped(value, &mut forms);
    // A value from a file may be printed without its last line end.
    let trimmed = value.trim_ascii();
    if trimmed.len() != value.len() && trimmed.len() >= MIN_BYTES {
        escaped(trimmed, &mut forms);
        encoded(trimmed, &mut forms);
    }
    for line in value.split(|it| *it == b'\n').map(<[u8]>::trim_ascii) {
        if line.len() >= MIN_LINE_BYTES && line.len() != trimmed.len() {
            escaped(line, &mut forms);
        }
    }
    encoded(value, &mut forms);
    forms.retain(|(form, _)| form.len() >= MIN_BYTES);
    forms
}

/// Raw, JSON and percent encodings.
fn escaped(value: &[u8], forms: &mut Vec<(Vec<u8>, Edges)>) {
    let mut push = |form: Vec<u8>| forms.push((form, Edges::default()));
    push(value.to_vec());
    if let Ok(text) = std::str::from_utf8(value) {
        let once = json(text);
        push(json(&once).into_bytes());
        push(go_json(&once).into_bytes());
        push(once.into_bytes());
    }
    for kept in KEPT {
        for plus in [false, true] {
            push(percent(value, kept, plus, false));
            push(percent(value, kept, plus, true));
        }
    }
}

/// JSON without the quotes around it.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted
        .get(1..quoted.len() - 1)
        .unwrap_or_default()
        .to_owned()
}

/// JSON of Go, which escapes characters of HTML, too.
fn go_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn percent(value: &[u8], kept: &[u8], is_space_plus: bool, is_lower: bool) -> Vec<u8> {
    let mut form = Vec::with_capacity(value.len() * 3);
    for byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            form.push(*byte);
        } else if is_space_plus && *byte == b' ' {
            form.push(b'+');
        } else if is_lower {
            form.extend(format!("%{byte:02x}").bytes());
        } else {
            form.extend(format!("%{byte:02X}").bytes());
        }
    }
    form
}

/// Base64 of the value behind 0, 1 and 2 other bytes. Characters with bits of other bytes are edges.
fn encoded(value: &[u8], forms: &mut Vec<(Vec<u8>, Edges)>) {
    for (offset, skipped) in [(0, 0), (1, 2), (2, 3)] {
        let mut bytes = vec![0; offset];
        bytes.extend(value);
        let bits = bytes.len() * 8;
        let edges = Edges {
            before: offset > 0,
            after: bits % 6 != 0,
        };
        for text in [
            STANDARD_NO_PAD.encode(&bytes),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            if let Some(core) = text.get(skipped..bits / 6) {
                forms.push((core.as_bytes().to_vec(), edges));
            }
        }
    }
}
