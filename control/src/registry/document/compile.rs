//! What Commodore reports, as it was sent. Whatever it has beside the known fields is dropped.

use fairlead_api::Failure;
use serde_json::Value;

use super::invalid;
use crate::model::CompileMeta;

/// # Errors
/// `FL-4109` with what is wrong.
pub(in crate::registry) fn read(mut given: Value) -> Result<CompileMeta, Failure> {
    if !given.is_object() {
        return Err(invalid("compileMeta: expected an object"));
    }
    drop_nulls(&mut given);
    let mut read: CompileMeta = serde_json::from_value(given)
        .map_err(|error| invalid(format_args!("compileMeta: {error}")))?;
    let utc = |at: time::OffsetDateTime| at.to_offset(time::UtcOffset::UTC);
    read.last_compile = read.last_compile.map(utc);
    Ok(read)
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
