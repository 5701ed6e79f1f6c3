//! A received JSON object whose fields are consumed one by one. `null` counts as missing.

use std::collections::BTreeMap;

use fairlead_api::resources::without_secret;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use fairlead_routes::{InvalidValue, invalid};

/// Maximum number of entries in a map.
const MAX_ENTRIES: usize = 1024;
/// Maximum length of a fact's or annotation's name in bytes: prefix of 253, slash, name of 63.
const MAX_NAME_BYTES: usize = 317;

/// Fields not consumed yet.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    /// Path within the document with a trailing dot; empty for the document itself.
    at: String,
    left: Map<String, Value>,
}

/// Rejects a password in a URL: URLs are visible in documents and in the change log.
///
/// # Errors
/// `FL-4109` with the field.
pub(super) fn reject_credentials(field: &str, url: Option<&str>) -> Result<(), InvalidValue> {
    match url.and_then(without_secret) {
        None => Ok(()),
        Some(_) => Err(invalid(format_args!(
            "{field}: a password or token is not allowed in a URL; use ssh:// with a deploy key, or pass it to the programs that read the repository"
        ))),
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// True if [`Fields::values`] accepts the map.
pub(super) fn are_entries(values: &Map<String, Value>) -> bool {
    let mut names = (values.iter()).filter_map(|(name, value)| (!value.is_null()).then_some(name));
    values.len() <= MAX_ENTRIES && names.all(|name| is_name(name))
}

impl Fields {
    /// Wraps a JSON object.
    ///
    /// # Errors
    /// `FL-4109` for any other value.
    pub(crate) fn of(document: Value) -> Result<Self, InvalidValue> {
        match document {
            Value::Object(left) => Ok(Fields {
                at: String::new(),
                left,
            }),
            _ => Err(invalid("expected an object")),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, expected: &str) -> InvalidValue {
        invalid(format_args!("{}{name}: expected {expected}", self.at))
    }

    /// An empty string counts as missing.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, InvalidValue> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) if text.contains('\0') => {
                Err(self.wrong(name, "a string without NUL"))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, InvalidValue> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(yes)) => Ok(Some(yes)),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// A variant of an enum.
    pub(crate) fn word<T: DeserializeOwned>(
        &mut self,
        name: &str,
        words: &str,
    ) -> Result<Option<T>, InvalidValue> {
        match self.take(name) {
            None => Ok(None),
            Some(word) => match serde_json::from_value(word) {
                Ok(word) => Ok(Some(word)),
                Err(_) => Err(self.wrong(name, words)),
            },
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Fields>, InvalidValue> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(left)) => Ok(Some(Fields {
                at: format!("{}{name}.", self.at),
                left,
            })),
            Some(_) => Err(self.wrong(name, "an object")),
        }
    }

    /// A map of strings, without nulls.
    pub(crate) fn texts(
        &mut self,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, InvalidValue> {
        let Some(values) = self.values(name)? else {
            return Ok(None);
        };
        let mut texts = BTreeMap::new();
        for (key, value) in values {
            let Value::String(text) = value else {
                return Err(self.wrong(&format!("{name}.{key}"), "a string"));
            };
            texts.insert(key, text);
        }
        Ok(Some(texts))
    }

    /// A map of JSON values, without nulls.
    pub(crate) fn values(
        &mut self,
        name: &str,
    ) -> Result<Option<BTreeMap<String, Value>>, InvalidValue> {
        let Some(map) = self.object(name)? else {
            return Ok(None);
        };
        let given = map.left.into_iter().filter(|(_, value)| !value.is_null());
        let values: BTreeMap<String, Value> = given.collect();
        if values.len() > MAX_ENTRIES {
            return Err(self.wrong(name, &format!("at most {MAX_ENTRIES} entries")));
        }
        if let Some(bad) = values.keys().find(|name| !is_name(name)) {
            let bad: String = bad.chars().take(20).collect();
            let detail = format!("{}{name}: {bad:?} cannot be a name", self.at);
            return Err(invalid(detail));
        }
        Ok(Some(values))
    }

    /// Rejects remaining fields.
    ///
    /// # Errors
    /// `FL-4109` with the first one.
    pub(crate) fn reject_rest(&self) -> Result<(), InvalidValue> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => {
                let name: String = name.chars().take(100).collect();
                Err(invalid(format_args!("unknown field \"{}{name}\"", self.at)))
            }
        }
    }

    /// Path of this object within the document, without a trailing dot.
    pub(super) fn path(&self) -> &str {
        self.at.trim_end_matches('.')
    }

    /// Any value but `null`.
    pub(super) fn value(&mut self, name: &str) -> Option<Value> {
        self.take(name)
    }

    /// True if the field is present, even as `null`.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.left.keys().map(String::as_str)
    }

    pub(super) fn rest(&self) -> &Map<String, Value> {
        &self.left
    }

    /// The remaining fields.
    pub(crate) fn into_rest(self) -> Map<String, Value> {
        self.left
    }
}
