//! Failures of routes as responses.

use axum::response::{IntoResponse, Response};
use fairlead_api::{Code, Failure};
use fairlead_seam::{AuthenticateError, refuse};
use http::StatusCode;

/// A failure as an HTTP response.
#[derive(Debug)]
pub struct Rejected(Failure, Option<StatusCode>);

/// Result of a handler.
pub type Answer<T> = Result<T, Rejected>;

impl<F: Into<Failure>> From<F> for Rejected {
    fn from(failure: F) -> Self {
        Rejected(failure.into(), None)
    }
}

impl Rejected {
    /// A failure of this code with a detail.
    pub fn because(code: Code, detail: impl std::fmt::Display) -> Self {
        Rejected(Failure::because(code, detail), None)
    }

    /// The failure, without an HTTP status of its own.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        self.0
    }

    /// With this exact text, and an HTTP status other than the code's own.
    pub fn saying(code: Code, status: StatusCode, words: &str) -> Self {
        Rejected(Failure::with_cause(code, words), Some(status))
    }
}

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        let mut response = refuse(self.0);
        if let Some(status) = self.1 {
            *response.status_mut() = status;
        }
        response
    }
}

/// A failed authentication in Lieutenant's form: a missing token is a malformed request.
pub(crate) fn as_lieutenant(error: AuthenticateError) -> Rejected {
    match error {
        AuthenticateError::NoToken => Rejected::saying(
            Code::NoToken,
            StatusCode::BAD_REQUEST,
            "missing or malformed jwt",
        ),
        other => other.into(),
    }
}
