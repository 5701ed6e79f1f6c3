//! The error of a document or a parameter that cannot be read.

use std::fmt;

use fairlead_api::{Code, Failure};

/// A value of a request or setting that is not allowed; its text is one sentence for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InvalidValue {
    text: String,
    code: Code,
}

impl InvalidValue {
    /// Error with exactly this text.
    #[must_use]
    pub fn new(text: impl fmt::Display) -> Self {
        Self::with_code(Code::Invalid, text)
    }

    /// Error of another code with exactly this text.
    #[must_use]
    pub fn with_code(code: Code, text: impl fmt::Display) -> Self {
        InvalidValue {
            text: text.to_string(),
            code,
        }
    }

    /// Code of the error.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Error with the title of its code, and this detail.
    #[must_use]
    pub fn because(detail: impl fmt::Display) -> Self {
        Self::new(format_args!("{}: {detail}", Code::Invalid.title()))
    }
}

/// `FL-4109` with this cause.
pub fn invalid(what: impl fmt::Display) -> InvalidValue {
    InvalidValue::new(what)
}

impl From<InvalidValue> for Failure {
    fn from(error: InvalidValue) -> Self {
        Failure::with_cause(error.code, error.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_the_code_of_invalid_values() {
        let exact = Failure::from(InvalidValue::new("text"));
        assert_eq!(exact, Failure::with_cause(Code::Invalid, "text"));
        let detail = Failure::from(InvalidValue::because("text"));
        assert_eq!(detail, Failure::because(Code::Invalid, "text"));
    }
}
