//! Compile metadata as received from Commodore. Unknown fields are dropped.

use fairlead_store::model::CompileMeta;
use serde_json::{Map, Value};
use time::{OffsetDateTime, UtcOffset};

use fairlead_routes::{InvalidValue, invalid};

/// Parses a report.
///
/// # Errors
/// `FL-4109` with the first invalid value.
pub(crate) fn read(mut given: Value) -> Result<CompileMeta, InvalidValue> {
    if !given.is_object() {
        return Err(invalid("compileMeta: expected an object"));
    }
    drop_nulls(&mut given);
    let mut read: CompileMeta = serde_json::from_value(given)
        .map_err(|error| invalid(format_args!("compileMeta: {error}")))?;
    // In UTC a time of another zone may be beyond the calendar.
    let utc = |at: OffsetDateTime| {
        let at = at.checked_to_offset(UtcOffset::UTC);
        at.ok_or_else(|| invalid("compileMeta.lastCompile: the time is out of range"))
    };
    read.last_compile = read.last_compile.map(utc).transpose()?;
    Ok(read)
}

/// Rejects unknown fields in a manual edit. Commodore's own reports may have more.
///
/// # Errors
/// `FL-4109` with the first unknown field.
pub(super) fn check_fields(given: Option<&Value>) -> Result<(), InvalidValue> {
    let Some(given) = given.filter(|it| it.is_object()) else {
        return Ok(());
    };
    let known = serde_json::to_value(read(given.clone())?).unwrap_or_default();
    match unknown(given, &known) {
        None => Ok(()),
        Some(path) => {
            let path: String = path.chars().take(100).collect();
            Err(invalid(format_args!(
                "unknown field \"compileMeta.{path}\""
            )))
        }
    }
}

/// Path of the first unknown value. Empty maps are not stored.
fn unknown(given: &Value, known: &Value) -> Option<String> {
    let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    given
        .as_object()?
        .iter()
        .find_map(|(name, value)| match known.get(name) {
            Some(known) => unknown(value, known).map(|path| format!("{name}.{path}")),
            None if empty(value) => None,
            None => Some(name.clone()),
        })
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
