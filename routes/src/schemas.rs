//! Schemas of the description, made from the types that routes take and give.

use std::{borrow::Cow, collections::BTreeMap};

use fairlead_api::{Reason, resources::List};
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

/// Schema of an object of any content.
pub(super) const ANY: &str = "Any";
/// Schema of a text.
pub(super) const TEXT: &str = "Text";
/// Schema of every failure.
pub(super) const FAILURE: &str = "Reason";

type Named = Vec<(String, RefOr<Schema>)>;

/// A schema that a route refers to, not built yet.
pub(super) struct NamedSchema {
    pub(super) name: Cow<'static, str>,
    schema: fn() -> RefOr<Schema>,
    /// Adds the schemas that it refers to.
    nested: fn(&mut Named),
}

impl NamedSchema {
    pub(super) fn of<T: ToSchema>() -> Self {
        NamedSchema {
            name: T::name(),
            schema: T::schema,
            nested: T::schemas,
        }
    }

    /// A list. Its name replaces the generated one of a generic type.
    pub(super) fn list_of<T: ToSchema>(name: &'static str) -> Self {
        NamedSchema {
            name: Cow::Borrowed(name),
            schema: List::<T>::schema,
            nested: T::schemas,
        }
    }

    fn build(&self, all: &mut Named) {
        all.push((self.name.clone().into_owned(), (self.schema)()));
        (self.nested)(all);
    }
}

/// These schemas by name, with those that they refer to.
///
/// # Panics
/// In debug builds, if two types have one name.
pub(super) fn schemas<'a>(referenced: impl Iterator<Item = &'a NamedSchema>) -> Map<String, Value> {
    let mut named = Named::new();
    NamedSchema::of::<Reason>().build(&mut named);
    for schema in referenced {
        schema.build(&mut named);
    }
    let mut all = BTreeMap::new();
    for (name, schema) in named {
        let mut value = serde_json::to_value(schema).unwrap_or_default();
        tidy(&mut value);
        let known = all.get(&name);
        let is_same = known.is_none_or(|known| *known == value);
        debug_assert!(is_same, "two types are named {name}");
        all.insert(name, value);
    }
    all.insert(ANY.to_owned(), json!({ "type": "object" }));
    all.insert(TEXT.to_owned(), json!({ "type": "string" }));
    all.into_iter().collect()
}

/// Applies two conventions of the API. An optional field is left out and never `null`. A description is plain text, without
/// links to items of the code.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let required = fields.get("required").cloned().unwrap_or_default();
            let is_required = |name: &String| {
                let names = required.as_array();
                names.is_some_and(|all| all.iter().any(|it| it == name))
            };
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                let optional = properties.iter_mut().filter(|(name, _)| !is_required(name));
                optional.for_each(|(_, property)| without_null(property));
            }
            // utoipa has the flag of a list at its items.
            let items = fields.get_mut("items").and_then(Value::as_object_mut);
            if let Some(read_only) = items.and_then(|it| it.remove("readOnly")) {
                fields.insert("readOnly".to_owned(), read_only);
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn without_null(property: &mut Value) {
    let Value::Object(fields) = property else {
        return;
    };
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("oneOf") {
        choices.retain(|it| it.get("type").is_none_or(|it| it != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            fields.remove("oneOf");
            for (name, value) in only {
                fields.entry(name).or_insert(value);
            }
        }
    }
}
