//! Schemas of the public API descriptions, as far as the hub uses them: each request and answer of
//! a fake is checked.

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    /// A text or null.
    MaybeText,
    Number,
    Flag,
    List,
}

/// Name, type, and whether the field is required.
pub(crate) type Field = (&'static str, Type, bool);

/// Asserts that an object has all required fields, no unknown ones, and the types of all.
pub(crate) fn check(what: &str, value: &Value, fields: &[Field]) {
    let Value::Object(map) = value else {
        panic!("{what}: an object expected: {value}");
    };
    for (name, value) in map {
        let field = fields.iter().find(|(known, ..)| known == name);
        let Some((_, kind, _)) = field else {
            panic!("{what}: the description has no field {name}");
        };
        let fits = match kind {
            Type::Text => value.is_string(),
            Type::MaybeText => value.is_string() || value.is_null(),
            Type::Number => value.is_u64(),
            Type::Flag => value.is_boolean(),
            Type::List => value.is_array(),
        };
        assert!(fits, "{what}: {name} is no {kind:?}: {value}");
    }
    for (name, _, required) in fields {
        assert!(
            !required || map.contains_key(*name),
            "{what}: {name} is missing"
        );
    }
}
