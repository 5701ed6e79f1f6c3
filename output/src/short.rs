//! Values shortened for tables.

use serde_json::Value;

/// Shortens a value to one line of a table.
#[must_use]
pub fn short(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            let texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    };
    // Values from clusters must not contain terminal escapes.
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.clone().take(MAX_CHARS).collect();
    if plain.count() > MAX_CHARS {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_value_is_one_line() {
        assert_eq!(short(&json!(["a", "b"])), "a, b");
        assert_eq!(short(&json!("a\n\u{1b}[31m")), "a  [31m");
        assert_eq!(short(&json!("x".repeat(70))).chars().count(), 61);
    }
}
