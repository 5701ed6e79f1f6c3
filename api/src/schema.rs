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

/// Describes a type that is a text in JSON.
macro_rules! text_schema {
    ($name:ident, $pattern:literal, $max_length:literal) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some($pattern))
                    .max_length(Some($max_length))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use text_schema;

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
