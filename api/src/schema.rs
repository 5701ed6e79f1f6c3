//! Constraints of the API's description that a derive cannot express.

use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Type};

/// Limit of the entries of a list in the settings of an agent.
const MAX_ENTRIES: usize = 64;

fn texts(min_length: Option<usize>, max_length: usize) -> Array {
    let item = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(min_length)
        .max_length(Some(max_length));
    ArrayBuilder::new()
        .items(item)
        .max_items(Some(MAX_ENTRIES))
        .build()
}

/// Names of collectors.
pub(crate) fn collectors() -> Array {
    texts(None, 64)
}

/// Prefixes of the names of annotations.
pub(crate) fn prefixes() -> Array {
    texts(Some(1), 253)
}

/// Targets of TCP connections, `host:port`.
pub(crate) fn targets() -> Array {
    texts(None, 261)
}
