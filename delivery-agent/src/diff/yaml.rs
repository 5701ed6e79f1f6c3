//! Objects as YAML for people: block style, keys in their order, long texts as blocks.

use serde_json::{Map, Value};

/// Writes a value as YAML.
pub(super) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(map, 0, &mut text),
        Value::Array(items) if !items.is_empty() => write_list(items, 0, &mut text),
        scalar => {
            write_scalar(scalar, 0, &mut text);
        }
    }
    text
}

fn indent(depth: usize, text: &mut String) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}

fn write_map(map: &Map<String, Value>, depth: usize, text: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        // The first key of a list item follows its dash.
        if at > 0 || !text.ends_with("- ") {
            indent(depth, text);
        }
        text.push_str(&plain(key));
        text.push(':');
        write_child(value, depth, text);
    }
}

fn write_child(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            write_map(map, depth + 1, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            write_list(items, depth, text);
        }
        scalar => {
            text.push(' ');
            write_scalar(scalar, depth + 1, text);
        }
    }
}

fn write_list(items: &[Value], depth: usize, text: &mut String) {
    for item in items {
        indent(depth, text);
        text.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(map, depth + 1, text),
            Value::Array(nested) if !nested.is_empty() => {
                // A list in a list begins on its own line.
                text.truncate(text.trim_end_matches(' ').len());
                text.push('\n');
                write_list(nested, depth + 1, text);
            }
            scalar => write_scalar(scalar, depth + 1, text),
        }
    }
}

fn write_scalar(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::String(string) if is_block(string) => {
            text.push_str(if string.ends_with('\n') { "|" } else { "|-" });
            text.push('\n');
            for line in string.lines() {
                if !line.is_empty() {
                    indent(depth, text);
                }
                text.push_str(line);
                text.push('\n');
            }
        }
        Value::String(string) => {
            text.push_str(&plain(string));
            text.push('\n');
        }
        other => {
            text.push_str(&other.to_string());
            text.push('\n');
        }
    }
}

/// True for texts of several lines that a block shows as they are.
fn is_block(text: &str) -> bool {
    let is_shown = |line: &str| !line.contains(|c: char| c.is_control() && c != '\t');
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\n'])
        && !text.ends_with("\n\n")
        && text.lines().all(is_shown)
}

/// The text itself if it reads back as the same string; quoted otherwise.
fn plain(text: &str) -> String {
    let is_word = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(
                c,
                '_' | '-' | '.' | '/' | '@' | '+' | '=' | ',' | '(' | ')' | ' ' | ':'
            )
    };
    let starts =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_' || c == '(');
    let is_reserved = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "~"
    );
    let is_plain = starts
        && !is_reserved
        && text.chars().all(is_word)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #");
    if is_plain {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use fairlead_manifests::yaml::parse;
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_reads_back_as_the_same_object() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}, "annotations": {"a/b": "c: d", "e": "1"}},
            "data": {
                "yes": "no", "on": "", "text": "a\nb\n", "cut": "a\nb", "tail": "a\n\n", "space": " a\nb", "time": "12:30", "dots": "...", "dash": "- a",
                "unicode": "é☃", "control": "a\u{1}b\nc", "tabs": "a\tb\n\tc", "hash": "a #b", "quote": "\"x\"", "end": "a:", "hex": "0x1f", "octal": "0644", "brace": "{a}",
            },
            "list": [1, "a", {"b": [1, 2], "c": {"d": null}}, [[1], []], {}, true, 1.5, "multi\nline"],
            "empty": [], "nested": {"deep": {"deeper": [{"x": {"y": "z"}}]}},
        });
        let text = to_yaml(&object);
        let parsed = parse("a.yaml", text.as_bytes()).unwrap_or_else(|it| panic!("{it}\n{text}"));
        assert_eq!(parsed[0].object, object, "{text}");
    }

    #[test]
    fn yaml_is_readable() {
        let object = json!({"spec": {"containers": [{"args": ["a"], "image": "web:1", "name": "web"}]}, "x": "l1\nl2\n"});
        let expected = "spec:\n  containers:\n  - args:\n    - a\n    image: web:1\n    name: web\nx: |\n  l1\n  l2\n";
        assert_eq!(to_yaml(&object), expected);
    }
}
