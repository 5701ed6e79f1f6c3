//! Variables in manifests, with those of Secrets: only objects of kind `Secret` may use the latter.

use std::{borrow::Cow, cell::RefCell};

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_bundle::variables::{VariableError, substitute_text};
use fairlead_manifests::{ObjectKey, SubstituteError, substitute};
use serde_json::{Map, Value};

/// A variable that cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// A variable of a Secret is used in the wrong place.
    #[error("{0}")]
    Misused(String),
    /// The value of a Secret is no text, and is used where only text can stand.
    #[error("{0}")]
    NoText(String),
    /// Another variable has no value.
    #[error(transparent)]
    Variable(#[from] SubstituteError<VariableError>),
}

/// Replaces all variables of one object. `secret` has the values of Secrets by full name, `lookup` all others.
///
/// In `stringData` of a Secret the variables of Secrets become text. In `data` a value that is one variable becomes base64
/// of its bytes, which need not be text. Any other use of them is refused: a value must not reach an object that more people may read. Values are
/// not searched for variables again.
///
/// # Errors
/// [`ReplaceError`]; the object is then partly replaced.
pub fn replace_variables<'a>(
    object: &mut Value,
    secret: &dyn Fn(&str) -> Option<&'a [u8]>,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
) -> Result<(), ReplaceError> {
    let key = ObjectKey::of(object);
    let is_secret = key.as_ref().is_some_and(|it| it.is("", "Secret"));
    let mut data = Map::new();
    let mut texts = None;
    if is_secret {
        data = take_data(object, secret);
        texts = object
            .as_object_mut()
            .and_then(|it| it.remove("stringData"));
    }
    let misused = RefCell::new(None);
    let guarded = |name: &str| -> Option<Cow<'a, Value>> {
        if secret(name).is_some() {
            misused.borrow_mut().get_or_insert_with(|| name.to_owned());
            return Some(Cow::Owned(Value::from("")));
        }
        lookup(name)
    };
    substitute(object, &|text| substitute_text(text, &guarded))?;
    if let Some(name) = misused.into_inner() {
        let object = key.map_or_else(|| "an object".to_owned(), |it| it.to_string());
        let place = if is_secret {
            "outside of stringData, or in data with more text"
        } else {
            "and only objects of kind Secret may"
        };
        let cause = format!("{object} uses ${{{name}}}, a value of a Secret, {place}");
        return Err(ReplaceError::Misused(cause));
    }
    if let Some(mut texts) = texts {
        replace_texts(&mut texts, secret, lookup, key.as_ref())?;
        if let Value::Object(map) = object {
            map.insert("stringData".to_owned(), texts);
        }
    }
    if let Some(Value::Object(all)) = object.get_mut("data") {
        all.extend(data);
    }
    Ok(())
}

/// Replaces the variables of `stringData`, which holds text only.
fn replace_texts<'a>(
    texts: &mut Value,
    secret: &dyn Fn(&str) -> Option<&'a [u8]>,
    lookup: &dyn Fn(&str) -> Option<Cow<'a, Value>>,
    key: Option<&ObjectKey>,
) -> Result<(), ReplaceError> {
    let binary = RefCell::new(None);
    let combined = |name: &str| match secret(name) {
        None => lookup(name),
        Some(bytes) => {
            let text = std::str::from_utf8(bytes).unwrap_or_else(|_| {
                binary.borrow_mut().get_or_insert_with(|| name.to_owned());
                ""
            });
            Some(Cow::Owned(Value::from(text)))
        }
    };
    substitute(texts, &|text| substitute_text(text, &combined))?;
    let Some(name) = binary.into_inner() else {
        return Ok(());
    };
    let object = key.map_or_else(|| "a Secret".to_owned(), ToString::to_string);
    let cause = format!(
        "{object} uses ${{{name}}} in stringData, and its value is no UTF-8 text; data takes it"
    );
    Err(ReplaceError::NoText(cause))
}

/// Takes the entries of `data` that are one variable of a Secret, with their new values.
fn take_data<'a>(
    object: &mut Value,
    secret: &dyn Fn(&str) -> Option<&'a [u8]>,
) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(Value::Object(data)) = object.get_mut("data") else {
        return taken;
    };
    data.retain(|key, value| {
        let name = value.as_str().and_then(|text| {
            let name = text.strip_prefix("${")?.strip_suffix('}')?;
            Some(name.split_once(":-").map_or(name, |it| it.0))
        });
        match name.and_then(secret) {
            None => true,
            Some(bytes) => {
                taken.insert(key.clone(), Value::String(STANDARD.encode(bytes)));
                false
            }
        }
    });
    taken
}
