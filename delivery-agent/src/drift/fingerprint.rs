//! Fingerprint of an object's metadata: it changes with each write that can matter for drift.

use std::hash::{DefaultHasher, Hash, Hasher};

use fairlead_manifests::drift::entries;
use serde_json::Value;

/// Hash of UID, generation, deletion, labels, and of all entries of `managedFields` but those of the status. Writes of the
/// status leave it as it is.
pub(super) fn fingerprint(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for pointer in ["uid", "generation", "deletionTimestamp", "labels"] {
        let value = object.pointer(&format!("/metadata/{pointer}"));
        value.map(Value::to_string).hash(&mut hasher);
    }
    for entry in entries(object).filter(|it| it.subresource != "status") {
        (
            entry.manager,
            entry.operation,
            entry.subresource,
            entry.time,
        )
            .hash(&mut hasher);
        entry.fields.to_string().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_writes_of_the_status_are_left_out() {
        let entry = |manager: &str, subresource: &str, time: &str| json!({"manager": manager, "operation": "Update", "subresource": subresource, "time": time, "fieldsV1": {"f:a": {}}});
        let with = |entries: Value, version: &str| json!({"metadata": {"uid": "u", "resourceVersion": version, "managedFields": entries}});
        let before = fingerprint(&with(json!([entry("a", "", "1")]), "1"));
        let status = with(json!([entry("a", "", "1"), entry("c", "status", "2")]), "2");
        assert_eq!(fingerprint(&status), before);
        let edit = with(json!([entry("a", "", "1"), entry("c", "", "2")]), "2");
        assert_ne!(fingerprint(&edit), before);
    }
}
