//! Replacement of variables in the string scalars of a document.

use serde_json::Value;

/// A string that cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {source}")]
pub struct SubstituteError<E: std::error::Error + 'static> {
    /// Field, like `.spec.replicas`.
    pub path: String,
    /// Cause.
    pub source: E,
}

/// Replaces each string of a value, at any depth. Keys stay. `replace` returns the new value of a string.
///
/// # Errors
/// The first error of `replace`, with its field.
pub fn substitute<E: std::error::Error>(
    value: &mut Value,
    replace: &dyn Fn(&str) -> Result<Value, E>,
) -> Result<(), SubstituteError<E>> {
    let mut path = Vec::new();
    visit(value, replace, &mut path).map_err(|source| SubstituteError {
        path: path.concat(),
        source,
    })
}

/// Keeps `path` at the failed field when it returns an error.
fn visit<E>(
    value: &mut Value,
    replace: &dyn Fn(&str) -> Result<Value, E>,
    path: &mut Vec<String>,
) -> Result<(), E> {
    match value {
        Value::String(text) => *value = replace(text)?,
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(format!("[{index}]"));
                visit(item, replace, path)?;
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                path.push(crate::fields::segment(key));
                visit(item, replace, path)?;
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("variable {0} has no value")]
    struct Missing(String);

    #[test]
    fn strings_are_replaced_and_keys_stay() {
        let replace = |text: &str| match text {
            "${vars.replicas}" => Ok(json!(3)),
            "${vars.none}" => Err(Missing("vars.none".into())),
            _ => Ok(json!(text)),
        };
        let mut value = json!({"${vars.replicas}": ["${vars.replicas}", 1, null, "${HOME}"]});
        substitute(&mut value, &replace).unwrap();
        assert_eq!(value, json!({"${vars.replicas}": [3, 1, null, "${HOME}"]}));
        let mut value = json!({"metadata": {"a.b/c": [1, "${vars.none}"]}});
        let error = substitute(&mut value, &replace).unwrap_err();
        assert_eq!(
            error.to_string(),
            ".metadata[\"a.b/c\"][1]: variable vars.none has no value"
        );
    }
}
