//! Fields that must not be sent: those of the API server, `stringData`, and empty certificate bundles.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::object::ObjectKey;

/// Fields of `metadata` that the API server sets.
const SERVER_FIELDS: [&str; 6] = [
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "selfLink",
];

/// Removes fields that an apply must not own. An error names a field of the wrong type.
///
/// `stringData` of Secrets becomes `data`: an apply of `stringData` owns `stringData`, so changes of `data` stay unseen.
/// Certificate bundles without a certificate are removed, because another controller fills them in.
///
/// # Errors
/// The field that is no map of strings.
pub fn clean(object: &mut Value) -> Result<(), &'static str> {
    let Some(key) = ObjectKey::of(object) else {
        return Ok(());
    };
    if let Value::Object(map) = object {
        map.remove("status");
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            for field in SERVER_FIELDS {
                metadata.remove(field);
            }
        }
    }
    drop_null_times(object);
    if key.is("", "Secret") {
        pack_string_data(object)?;
    }
    for pointer in bundle_owners(&key, object) {
        if let Some(Value::Object(owner)) = object.pointer_mut(&pointer)
            && owner.get("caBundle").is_some_and(|it| !has_certificate(it))
        {
            owner.remove("caBundle");
        }
    }
    Ok(())
}

/// Removes `creationTimestamp: null`, which generators write into templates.
fn drop_null_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(metadata)) = map.get_mut("metadata")
                && metadata
                    .get("creationTimestamp")
                    .is_some_and(Value::is_null)
            {
                metadata.remove("creationTimestamp");
            }
            map.values_mut().for_each(drop_null_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null_times),
        _ => {}
    }
}

/// Moves `stringData` into `data`; its keys win, as in the API server.
fn pack_string_data(object: &mut Value) -> Result<(), &'static str> {
    let Value::Object(secret) = object else {
        return Ok(());
    };
    let texts = match secret.remove("stringData") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(texts)) => texts,
        Some(_) => return Err(".stringData"),
    };
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    let data = data.as_object_mut().ok_or(".data")?;
    for (key, text) in texts {
        let text = match &text {
            Value::String(text) => text.as_str(),
            Value::Null => "",
            _ => return Err(".stringData"),
        };
        data.insert(key, STANDARD.encode(text).into());
    }
    Ok(())
}

/// JSON pointers of the maps that may hold a `caBundle`.
fn bundle_owners(key: &ObjectKey, object: &Value) -> Vec<String> {
    match (key.group.as_str(), key.kind.as_str()) {
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            let count = object
                .get("webhooks")
                .and_then(Value::as_array)
                .map_or(0, Vec::len);
            (0..count)
                .map(|index| format!("/webhooks/{index}/clientConfig"))
                .collect()
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            vec!["/spec/conversion/webhook/clientConfig".to_owned()]
        }
        ("apiregistration.k8s.io", "APIService") => vec!["/spec".to_owned()],
        _ => Vec::new(),
    }
}

/// True if the value is base64 of a text with a certificate.
fn has_certificate(bundle: &Value) -> bool {
    let bytes = bundle
        .as_str()
        .and_then(|it| STANDARD.decode(it.trim()).ok());
    bytes.is_some_and(|it| String::from_utf8_lossy(&it).contains("-----BEGIN "))
}
