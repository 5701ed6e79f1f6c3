//! Values of a release: those of the spec, with values of Secrets put in.

use fairlead_api::delivery::HelmOptions;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

/// Values that cannot take the value of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values.{path} cannot be set: values.{crossed} is no map in the bundle")]
pub(crate) struct ValuesError {
    /// Path in the values.
    path: String,
    /// Path of the value that is no map.
    crossed: String,
}

/// Values for Helm.
///
/// # Errors
/// [`ValuesError`].
pub(crate) fn merged(
    options: Option<&HelmOptions>,
    secrets: &[(String, SecretString)],
) -> Result<Value, ValuesError> {
    let mut values = options.map(|it| it.values.clone()).unwrap_or_default();
    for (path, secret) in secrets {
        put(&mut values, path, secret)?;
    }
    Ok(Value::Object(values))
}

fn put(
    values: &mut Map<String, Value>,
    path: &str,
    secret: &SecretString,
) -> Result<(), ValuesError> {
    let keys: Vec<&str> = path.split('.').collect();
    let Some((last, parents)) = keys.split_last() else {
        return Ok(());
    };
    let mut map = values;
    for (at, parent) in parents.iter().enumerate() {
        let child = map.entry(*parent).or_insert(Value::Null);
        if child.is_null() {
            *child = Value::Object(Map::new());
        }
        let Value::Object(child) = child else {
            let crossed = keys.iter().take(at + 1).copied().collect::<Vec<_>>();
            return Err(ValuesError {
                path: path.to_owned(),
                crossed: crossed.join("."),
            });
        };
        map = child;
    }
    map.insert((*last).to_owned(), secret.expose_secret().into());
    Ok(())
}

/// True if Helm's record has these values. Helm writes numbers as it likes, so they are compared by value.
pub(crate) fn are_same(recorded: &Value, values: &Value) -> bool {
    match (recorded, values) {
        // Helm leaves an empty map out of its record.
        (Value::Null, Value::Object(map)) | (Value::Object(map), Value::Null) => map.is_empty(),
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| are_same(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_same(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(path: &str) -> (String, SecretString) {
        (path.to_owned(), "hunter2".into())
    }

    fn options(values: Value) -> HelmOptions {
        let Value::Object(values) = values else {
            panic!("a map");
        };
        HelmOptions {
            values,
            ..Default::default()
        }
    }

    #[test]
    fn secrets_go_into_their_paths() {
        let options = options(json!({"db": {"host": "db", "tls": null}, "replicas": 2}));
        let secrets = [secret("db.password"), secret("db.tls.key"), secret("token")];
        let values = merged(Some(&options), &secrets).unwrap();
        let expected = json!({
            "db": {"host": "db", "password": "hunter2", "tls": {"key": "hunter2"}},
            "replicas": 2, "token": "hunter2",
        });
        assert_eq!(values, expected);
        assert_eq!(merged(None, &[]).unwrap(), json!({}));
        let error = merged(Some(&options), &[secret("replicas.x")]).unwrap_err();
        assert_eq!(error.crossed, "replicas");
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn recorded_values_are_compared_by_value() {
        for (recorded, values, same) in [
            (json!(null), json!({}), true),
            (json!({"a": 1.0}), json!({"a": 1}), true),
            (json!({"a": [1, "x"]}), json!({"a": [1, "x"]}), true),
            (json!({"a": null}), json!({"a": null}), true),
            (json!({"a": null}), json!({}), false),
            (json!({"a": 1}), json!({"a": "1"}), false),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), false),
            (json!({"a": [1]}), json!({"a": [1, 2]}), false),
        ] {
            assert_eq!(are_same(&recorded, &values), same, "{recorded} {values}");
        }
    }
}
