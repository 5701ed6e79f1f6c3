//! The error of a document or a parameter that cannot be read.

use std::fmt::Display;

use crate::error::InvalidValue;

/// `FL-4109` with this cause.
pub(crate) fn invalid(what: impl Display) -> InvalidValue {
    InvalidValue::new(what)
}
