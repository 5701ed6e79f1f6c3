//! Drift as it is reported to the hub.

use std::collections::BTreeMap;

use fairlead_api::delivery::DriftedObject;

use super::compare::ChangedField;
use crate::object::ObjectKey;

/// Reported fields of one object and one manager.
const MAX_FIELDS: usize = 20;

/// The changed fields of an object by manager; removed fields have none. Values are never reported.
#[must_use]
pub fn drifted(key: &ObjectKey, changes: &[ChangedField]) -> Vec<DriftedObject> {
    let mut managers = BTreeMap::<Option<&str>, Vec<String>>::new();
    for change in changes {
        let fields = managers.entry(change.manager.as_deref()).or_default();
        if fields.len() < MAX_FIELDS {
            fields.push(change.path.to_string());
        }
    }
    let object = |(manager, fields): (Option<&str>, _)| DriftedObject {
        object: key.to_string(),
        fields,
        manager: manager.map(str::to_owned),
    };
    managers.into_iter().map(object).collect()
}
