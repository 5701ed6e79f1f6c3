//! The failure of a document or a parameter that cannot be read.

use std::fmt::Display;

use fairlead_api::{Code, Failure};

/// `FL-4109` with this cause.
pub(crate) fn invalid(what: impl Display) -> Failure {
    Failure::with_cause(Code::Invalid, what.to_string())
}
