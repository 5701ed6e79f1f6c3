//! Variables of a repository's CI (`gitRepo.ciVariables`). A received value is sealed before
//! anything else reads the document, so that no record, log or answer contains it.

use std::collections::BTreeMap;

use fairlead_api::{Code, resources::CiVariable};
use fairlead_routes::InvalidValue;
use fairlead_store::model::{StoredVariable, ValueSource, hex};
use serde_json::{Map, Value, json};

use crate::{document::fields::Fields, services::Sealer};

/// Limit of one record's variables.
const MAX_VARIABLES: usize = 100;
/// Limit of a name, in bytes, as GitLab has it.
const MAX_NAME_BYTES: usize = 255;
/// Limit of a value, in bytes: GitLab's in characters.
const MAX_VALUE_BYTES: usize = 10_000;
/// Length of a digest, in hexadecimal digits.
const DIGEST_DIGITS: usize = 16;
/// Field of a stored variable with its sealed value.
const SEALED: &str = "sealed";

/// Variables by name.
pub(super) type StoredVariables = BTreeMap<String, StoredVariable>;

fn refused(name: &str, cause: &str) -> InvalidValue {
    let shown: String = name.escape_debug().take(100).collect();
    let cause = format!("ciVariables: {shown}: {cause}");
    InvalidValue::with_code(Code::BadCiVariable, cause)
}

/// Replaces each received value by its sealed form.
///
/// # Errors
/// `FL-4143` with the name; never with the value.
pub(crate) fn seal(document: &mut Value, sealer: &dyn Sealer) -> Result<(), InvalidValue> {
    let variables = document
        .pointer_mut("/gitRepo/ciVariables")
        .and_then(Value::as_object_mut);
    for (name, variable) in variables.into_iter().flatten() {
        if let Value::Object(fields) = variable {
            seal_one(name, fields, sealer)?;
        }
    }
    Ok(())
}

fn seal_one(
    name: &str,
    fields: &mut Map<String, Value>,
    sealer: &dyn Sealer,
) -> Result<(), InvalidValue> {
    // Documents that were read have it.
    fields.remove("digest");
    if fields.contains_key(SEALED) {
        return Err(refused(name, "unknown field \"sealed\""));
    }
    let refers = fields.get("valueFrom").is_some_and(|it| !it.is_null());
    match fields.remove("value") {
        Some(Value::String(_)) if refers => {
            Err(refused(name, "value and valueFrom exclude each other"))
        }
        Some(Value::String(value)) => {
            check_value(name, &value)?;
            let sealed = sealer.seal(name, &value);
            let sealed = sealed.ok_or_else(|| refused(name, "the value cannot be encrypted"))?;
            fields.insert(SEALED.to_owned(), json!(sealed));
            fields.insert("valueFrom".to_owned(), Value::Null);
            Ok(())
        }
        Some(Value::Null) | None => {
            if refers {
                fields.insert(SEALED.to_owned(), Value::Null);
            }
            Ok(())
        }
        Some(_) => Err(refused(name, "value: expected a text")),
    }
}

fn check_value(name: &str, value: &str) -> Result<(), InvalidValue> {
    match value.len() {
        0 => Err(refused(name, "value: empty, which not every server takes")),
        1..=MAX_VALUE_BYTES if !value.contains('\0') => Ok(()),
        1..=MAX_VALUE_BYTES => Err(refused(name, "value: a NUL is not allowed")),
        _ => Err(refused(name, "value: more than 10,000 bytes")),
    }
}

/// Reads sealed variables.
///
/// # Errors
/// `FL-4143` with the name.
pub(super) fn read(mut given: Fields) -> Result<StoredVariables, InvalidValue> {
    let names: Vec<String> = given.names().map(str::to_owned).collect();
    let mut variables = StoredVariables::new();
    for name in names {
        let Some(variable) = given.value(&name) else {
            continue;
        };
        check_name(&name).map_err(|cause| refused(&name, cause))?;
        let variable = without_nulls(variable);
        let variable: StoredVariable = serde_json::from_value(variable)
            .map_err(|_| refused(&name, "expected value or valueFrom, protected, masked, raw"))?;
        if let Some(source) = &variable.value_from {
            check_source(source).map_err(|cause| refused(&name, cause))?;
        }
        let upper = name.to_ascii_uppercase();
        let is_repeated = |it: &String| it.to_ascii_uppercase() == upper;
        if variables.keys().any(is_repeated) {
            // GitHub and Gitea have names in upper case only.
            return Err(refused(&name, "another variable differs by case only"));
        }
        variables.insert(name, variable);
    }
    if variables.len() > MAX_VARIABLES {
        let cause = format!("ciVariables: more than {MAX_VARIABLES} entries");
        return Err(InvalidValue::with_code(Code::BadCiVariable, cause));
    }
    Ok(variables)
}

fn without_nulls(variable: Value) -> Value {
    match variable {
        Value::Object(fields) => {
            let given = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.collect())
        }
        other => other,
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match name {
        _ if name.len() > MAX_NAME_BYTES => Err("the name has more than 255 bytes"),
        _ if starts_well && name.chars().all(is_word) => Ok(()),
        _ => Err("a name has letters, digits and _ only, and starts with no digit"),
    }
}

/// A credential of the tenant.
///
/// # Errors
/// `FL-4143`
pub(super) fn source(given: Value) -> Result<ValueSource, InvalidValue> {
    let source: Result<ValueSource, _> = serde_json::from_value(given);
    let cause = match source {
        Ok(source) => match check_source(&source) {
            Ok(()) => return Ok(source),
            Err(cause) => cause,
        },
        Err(_) => "expected name and key of a credential",
    };
    Err(InvalidValue::with_code(Code::BadCiVariable, cause))
}

/// Checks the names of a credential, which may be those of a file.
fn check_source(source: &ValueSource) -> Result<(), &'static str> {
    let key = source.key.as_deref().unwrap_or("token");
    match is_plain(&source.name) && is_plain(key) {
        true => Ok(()),
        false => Err("this is no name of a credential"),
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    (1..=128).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Digest of an encrypted value, which is the same for the same value.
fn digest(sealed: &str) -> String {
    hex::hash_of(&sealed).chars().take(DIGEST_DIGITS).collect()
}

/// Variables as answers have them, without values.
pub(crate) fn shown(variables: &StoredVariables) -> BTreeMap<String, CiVariable> {
    let shown = variables.iter().map(|(name, variable)| {
        let variable = CiVariable {
            value: None,
            value_from: variable.value_from.clone(),
            protected: variable.protected,
            masked: variable.masked,
            raw: variable.raw,
            digest: variable.sealed.as_ref().map(|it| digest(it)),
        };
        (name.clone(), variable)
    });
    shown.collect()
}

/// Fills values that the received variables lack.
pub(super) fn keep_values(given: &mut StoredVariables, before: &StoredVariables) {
    for (name, variable) in given {
        let Some(before) = before.get(name) else {
            continue;
        };
        if variable.sealed.is_none() && variable.value_from.is_none() {
            variable.sealed.clone_from(&before.sealed);
            variable.value_from.clone_from(&before.value_from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Reversed;

    impl Sealer for Reversed {
        fn seal(&self, _: &str, text: &str) -> Option<String> {
            Some(text.chars().rev().collect())
        }
    }

    fn variables(value: Value) -> Result<StoredVariables, String> {
        let mut document = json!({ "gitRepo": { "ciVariables": value } });
        let mut read = || {
            seal(&mut document, &Reversed)?;
            let variables = document["gitRepo"]["ciVariables"].clone();
            read(Fields::of(variables)?)
        };
        read().map_err(|error: InvalidValue| {
            assert_eq!(error.code(), Code::BadCiVariable);
            error.to_string()
        })
    }

    #[test]
    fn values_are_sealed_before_they_are_read() {
        let given = json!({
            "TOKEN": { "value": "s3cret", "masked": true },
            "FROM": { "valueFrom": { "name": "ci" } },
        });
        let read = variables(given).unwrap();
        assert_eq!(read["TOKEN"].sealed.as_deref(), Some("terc3s"));
        assert!(read["TOKEN"].masked && read["FROM"].sealed.is_none());
        let answer = serde_json::to_string(&shown(&read)).unwrap();
        assert!(!answer.contains("terc3s"), "{answer}");
    }

    #[test]
    fn wrong_variables_are_refused_without_their_value() {
        let long = "x".repeat(MAX_VALUE_BYTES + 1);
        for (name, variable) in [
            ("1A", json!({ "value": "s3cret" })),
            ("A-B", json!({ "value": "s3cret" })),
            ("A", json!({ "value": "s3cret", "other": 1 })),
            ("A", json!({ "sealed": "s3cret" })),
            ("A", json!({ "value": "" })),
            ("A", json!({ "value": long })),
            (
                "A",
                json!({ "value": "s3cret", "valueFrom": { "name": "b" } }),
            ),
            ("A", json!({ "valueFrom": { "name": "../b" } })),
            ("A", json!("s3cret")),
        ] {
            let refused = variables(json!({ name: variable })).unwrap_err();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        let twice = variables(json!({ "A": { "value": "1" }, "a": { "value": "2" } }));
        assert!(twice.unwrap_err().contains("by case only"));
    }

    #[test]
    fn a_document_without_values_keeps_them() {
        let before = variables(json!({ "A": { "value": "old" } })).unwrap();
        let mut given = variables(json!({ "A": { "masked": true }, "B": {} })).unwrap();
        keep_values(&mut given, &before);
        assert_eq!(given["A"].sealed, before["A"].sealed);
        assert_eq!(given["B"].sealed, None);
    }
}
