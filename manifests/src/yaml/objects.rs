//! Objects in documents: lists are opened, and each object must have its names.

use serde_json::Value;

use super::{MAX_OBJECTS, Manifest, Place, Problem};
use crate::object::text;

/// Largest depth of lists in lists.
const MAX_LIST_DEPTH: usize = 8;

/// Appends the objects of a document.
pub(super) fn open(
    value: Value,
    place: &Place,
    depth: usize,
    manifests: &mut Vec<Manifest>,
) -> Result<(), Problem> {
    let Value::Object(mut map) = value else {
        return Err(Problem::NoMap);
    };
    let kind = map.get("kind").and_then(Value::as_str);
    let item_kind = kind.and_then(|it| it.strip_suffix("List")).map(Value::from);
    if let Some(item_kind) = item_kind
        && let Some(items @ (Value::Array(_) | Value::Null)) = map.get_mut("items")
    {
        if depth == MAX_LIST_DEPTH {
            let problem = format!("lists are nested deeper than {MAX_LIST_DEPTH}");
            return Err(Problem::Syntax(problem));
        }
        let items = items.take();
        let api_version = map.remove("apiVersion");
        let Value::Array(items) = items else {
            return Ok(());
        };
        for mut item in items {
            // Items of a typed list may leave out both fields.
            if let Value::Object(item) = &mut item
                && !item.contains_key("kind")
                && !item.contains_key("apiVersion")
                && let Some(api_version) = &api_version
            {
                item.insert("kind".to_owned(), item_kind.clone());
                item.insert("apiVersion".to_owned(), api_version.clone());
            }
            open(item, place, depth + 1, manifests)?;
        }
        return Ok(());
    }
    let object = Value::Object(map);
    for (pointer, field) in [("/apiVersion", "apiVersion"), ("/kind", "kind")] {
        if text(&object, pointer).is_none() {
            return Err(Problem::Missing(field));
        }
    }
    if text(&object, "/metadata/name").is_none() {
        let generated = text(&object, "/metadata/generateName").is_some();
        return Err(if generated {
            Problem::GeneratedName
        } else {
            Problem::Missing("metadata.name")
        });
    }
    if manifests.len() == MAX_OBJECTS {
        return Err(Problem::TooMany);
    }
    let place = place.clone();
    manifests.push(Manifest { object, place });
    Ok(())
}
