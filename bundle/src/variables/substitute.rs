//! Replaces variables in the strings of a value.

use std::borrow::Cow;

use serde_json::Value;

use super::reference::{Part, Parts};

/// A reference that has no replacement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// The variable has neither a value nor a default.
    #[error("variable {0} has no value for this cluster and no default")]
    Missing(String),
    /// The default has a reference.
    #[error("the default of variable {0} contains another variable")]
    Nested(String),
    /// The value is a list, a map or null, and the string has more text.
    #[error("variable {0} is neither text, number nor boolean, so it must be the whole string")]
    NotText(String),
}

/// Replaces variables in all strings of a value; `lookup` returns the value of a full name.
///
/// A string that is one reference becomes the value with its type. The default of such a reference is read as JSON if
/// it is a number, a boolean, null or a quoted string, and as text otherwise.
///
/// # Errors
/// [`VariableError`] of the first reference without a replacement. The value is then partly replaced.
pub fn substitute<'a>(
    value: &mut Value,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
) -> Result<(), VariableError> {
    match value {
        Value::String(text) => {
            if let Some(new) = replaced(text, lookup)? {
                *value = new;
            }
        }
        Value::Array(items) => {
            for item in items {
                substitute(item, lookup)?;
            }
        }
        Value::Object(map) => {
            for item in map.values_mut() {
                substitute(item, lookup)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// Replaces the variables in one string, as [`substitute`] does.
///
/// # Errors
/// [`VariableError`] of the first reference without a replacement.
pub fn substitute_text<'a>(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
) -> Result<Value, VariableError> {
    let new = replaced(text, lookup)?;
    Ok(new.unwrap_or_else(|| Value::from(text)))
}

/// The new value of a string; `None` if it has neither reference nor escape.
fn replaced<'a>(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
) -> Result<Option<Value>, VariableError> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut parts = Parts::new(text).peekable();
    let mut new = String::with_capacity(text.len());
    while let Some(part) = parts.next() {
        let (name, default) = match part {
            Part::Text(text) => {
                new.push_str(text);
                continue;
            }
            Part::Nested(name) => return Err(VariableError::Nested(name.to_owned())),
            Part::Reference { name, default } => (name, default),
        };
        let is_whole = new.is_empty() && parts.peek().is_none() && text.starts_with("${");
        match lookup(name) {
            Some(value) if is_whole => return Ok(Some(value.into_owned())),
            Some(value) => push_text(&mut new, &value, name)?,
            None => match (default, is_whole) {
                (None, _) => return Err(VariableError::Missing(name.to_owned())),
                (Some(default), true) => return Ok(Some(typed_default(default))),
                (Some(default), false) => match quoted(default) {
                    Some(text) => new.push_str(&text),
                    None => new.push_str(default),
                },
            },
        }
    }
    Ok((new != text).then_some(Value::String(new)))
}

fn push_text(new: &mut String, value: &Value, name: &str) -> Result<(), VariableError> {
    match value {
        Value::String(text) => new.push_str(text),
        Value::Bool(true) => new.push_str("true"),
        Value::Bool(false) => new.push_str("false"),
        Value::Number(number) => new.push_str(&number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            return Err(VariableError::NotText(name.to_owned()));
        }
    }
    Ok(())
}

fn typed_default(default: &str) -> Value {
    match serde_json::from_str(default) {
        Ok(Value::Array(_) | Value::Object(_)) | Err(_) => Value::String(default.to_owned()),
        Ok(scalar) => scalar,
    }
}

fn quoted(default: &str) -> Option<String> {
    let text = default.starts_with('"').then_some(default)?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lookup(name: &str) -> Option<Cow<'static, Value>> {
        let value = match name {
            "vars.n" => json!(3),
            "vars.list" => json!([1, 2]),
            "vars.null" => json!(null),
            "vars.yes" => json!(true),
            "vars.text" => json!("${vars.n}"),
            "cluster.id" => json!("c-berlin"),
            "cluster.annotations.example.org/site" => json!("edge"),
            _ => return None,
        };
        Some(Cow::Owned(value))
    }

    fn of(value: Value) -> Result<Value, VariableError> {
        let mut value = value;
        substitute(&mut value, &lookup).map(|()| value)
    }

    #[test]
    fn a_string_of_one_variable_keeps_its_type() {
        for (from, to) in [
            ("${vars.n}", json!(3)),
            ("${vars.list}", json!([1, 2])),
            ("${vars.null}", json!(null)),
            ("${vars.yes}", json!(true)),
            ("${cluster.id}", json!("c-berlin")),
            ("${vars.no:-2}", json!(2)),
            ("${vars.no:-\"2\"}", json!("2")),
            ("${vars.no:-true}", json!(true)),
            ("${vars.no:-null}", json!(null)),
            ("${vars.no:-}", json!("")),
            ("${vars.no:-[1]}", json!("[1]")),
            ("${vars.no:-1.30.2}", json!("1.30.2")),
            ("${vars.n:-2}", json!(3)),
        ] {
            assert_eq!(of(json!(from)).unwrap(), to, "{from}");
        }
    }

    #[test]
    fn variables_inside_of_text_become_text() {
        for (from, to) in [
            ("n=${vars.n}!", "n=3!"),
            ("${vars.n}${vars.n}", "33"),
            ("${vars.no:-1.10}0", "1.100"),
            ("say ${vars.no:-\"hi\"}", "say hi"),
            ("${vars.yes} ${cluster.id}", "true c-berlin"),
            ("${cluster.annotations.example.org/site}-x", "edge-x"),
            (" ${vars.n}", " 3"),
            // Neither values nor escapes are searched again.
            ("<${vars.text}>", "<${vars.n}>"),
            ("$${vars.n}", "${vars.n}"),
            ("$${vars.n}${vars.n}", "${vars.n}3"),
            ("${HOME}/$USER/$$/${x:-y}", "${HOME}/$USER/$$/${x:-y}"),
        ] {
            assert_eq!(of(json!(from)).unwrap(), json!(to), "{from}");
        }
    }

    #[test]
    fn keys_stay_and_nested_strings_are_replaced() {
        let from = json!({"${vars.n}": [{"a": "${vars.n}"}, "x"], "n": 1});
        let to = json!({"${vars.n}": [{"a": 3}, "x"], "n": 1});
        assert_eq!(of(from).unwrap(), to);
    }

    #[test]
    fn references_without_replacement_are_named() {
        for (from, error) in [
            ("${vars.no}", VariableError::Missing("vars.no".into())),
            (
                "a${cluster.facts.b}",
                VariableError::Missing("cluster.facts.b".into()),
            ),
            ("a${vars.list}", VariableError::NotText("vars.list".into())),
            ("a${vars.null}", VariableError::NotText("vars.null".into())),
            (
                "${vars.no:-${vars.n}}",
                VariableError::Nested("vars.no".into()),
            ),
        ] {
            assert_eq!(of(json!(from)).unwrap_err(), error, "{from}");
        }
    }

    proptest! {
        #[test]
        fn text_without_our_references_is_unchanged(text in "[$\\{\\}a-zA-Z:. /-]{0,40}") {
            prop_assume!(!text.contains("vars.") && !text.contains("cluster."));
            prop_assert_eq!(of(json!(text)).unwrap(), json!(text));
        }

        #[test]
        fn an_escaped_text_comes_back(text in "[a-z $\\{\\}]{0,8}(\\$\\{vars\\.n(:-[a-z]{0,2})?\\}[a-z ]{0,3}){0,4}") {
            // A `$` before a reference is an escape of its own.
            prop_assume!(!text.contains("$${"));
            let escaped = text.replace("${vars.", "$${vars.");
            prop_assert_eq!(of(json!(escaped)).unwrap(), json!(text));
        }

        #[test]
        fn used_variables_cover_substitution(text in "([$\\{\\}a-z:.-]|\\$\\{vars\\.[a-z]{1,2}|\\$\\{cluster\\.id\\}){0,20}") {
            let used = crate::variables::UsedVariables::of_text(&text);
            let known = std::cell::RefCell::new(Vec::new());
            let recorded = |name: &str| {
                known.borrow_mut().push(name.to_owned());
                Some(Cow::Owned(json!("x")))
            };
            let _ = substitute(&mut json!(text), &recorded);
            for name in known.into_inner() {
                prop_assert!(used.iter().any(|(it, _)| *it == name), "{} lacks {}", text, name);
            }
        }
    }
}
