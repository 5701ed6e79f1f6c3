//! Variables in manifests, with those of Secrets: only objects of kind `Secret` may use the latter.

use std::{borrow::Cow, cell::RefCell};

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::Code;
use fairlead_bundle::variables::{VariableError, substitute};
use fairlead_manifests::ObjectKey;
use serde_json::{Map, Value};

use super::{SecretError, SecretInputs, permanent};

/// A variable that cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaceError {
    /// A variable of a Secret is used in the wrong place, or its value does not fit there.
    Secret(SecretError),
    /// Another variable has no value.
    Variable(VariableError),
}

impl From<VariableError> for ReplaceError {
    fn from(error: VariableError) -> Self {
        ReplaceError::Variable(error)
    }
}

/// Replaces all variables of one object. `lookup` has the values of those that are no Secret's.
///
/// In `stringData` of a Secret the variables of Secrets become text. In `data` a value that is one variable becomes base64
/// of the Secret's bytes. Any other use of them is refused: a value must not reach an object that more people may read.
/// Values are not searched for variables again.
///
/// # Errors
/// [`ReplaceError`]; the object is then partly replaced.
pub fn replace_variables<'a>(
    object: &mut Value,
    inputs: &SecretInputs,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
) -> Result<(), ReplaceError> {
    let key = ObjectKey::of(object);
    let is_secret = key.as_ref().is_some_and(|it| it.is("", "Secret"));
    let (data, texts) = if is_secret && !inputs.is_empty() {
        (take_data(object, inputs), take(object, "stringData"))
    } else {
        (Map::new(), None)
    };
    let misused = RefCell::new(None);
    let guarded = |name: &str| -> Option<Cow<'a, Value>> {
        if inputs.variable(name).is_some() {
            misused.borrow_mut().get_or_insert_with(|| name.to_owned());
            return Some(Cow::Owned(Value::from("")));
        }
        lookup(name)
    };
    substitute(object, &guarded)?;
    if let Some(name) = misused.into_inner() {
        let object = key.map_or_else(|| "an object".to_owned(), |it| it.to_string());
        let cause = if is_secret {
            format!(
                "{object} uses ${{{name}}} of a Secret outside of stringData, or in data with more text"
            )
        } else {
            format!(
                "{object} uses ${{{name}}}, a value of a Secret; only objects of kind Secret may"
            )
        };
        return Err(ReplaceError::Secret(permanent(Code::SecretMisused, cause)));
    }
    if let Some(mut texts) = texts {
        replace_texts(&mut texts, inputs, lookup)?;
        put(object, "stringData", texts);
    }
    if let Some(Value::Object(all)) = object.get_mut("data") {
        all.extend(data);
    }
    Ok(())
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}

fn put(object: &mut Value, field: &str, value: Value) {
    if let Value::Object(map) = object {
        map.insert(field.to_owned(), value);
    }
}

/// Takes the entries of `data` that are one variable of a Secret, with their new values.
fn take_data(object: &mut Value, inputs: &SecretInputs) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(Value::Object(data)) = object.get_mut("data") else {
        return taken;
    };
    data.retain(|key, value| {
        let name = value.as_str().and_then(|text| {
            let name = text.strip_prefix("${")?.strip_suffix('}')?;
            Some(name.split_once(":-").map_or(name, |it| it.0))
        });
        match name.and_then(|it| inputs.variable(it)) {
            None => true,
            Some(bytes) => {
                taken.insert(key.clone(), Value::String(STANDARD.encode(bytes)));
                false
            }
        }
    });
    taken
}

fn replace_texts<'a>(
    texts: &mut Value,
    inputs: &SecretInputs,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
) -> Result<(), ReplaceError> {
    let binary = RefCell::new(None);
    let combined = |name: &str| -> Option<Cow<'a, Value>> {
        let Some(bytes) = inputs.variable(name) else {
            return lookup(name);
        };
        let text = std::str::from_utf8(bytes).unwrap_or_else(|_| {
            binary.borrow_mut().get_or_insert_with(|| name.to_owned());
            ""
        });
        Some(Cow::Owned(Value::from(text)))
    };
    substitute(texts, &combined)?;
    match binary.into_inner() {
        None => Ok(()),
        Some(name) => {
            let cause = format!(
                "the Secret's value for {name} is no UTF-8 text; use the variable alone as a value of data"
            );
            Err(ReplaceError::Secret(permanent(Code::SecretUnusable, cause)))
        }
    }
}
