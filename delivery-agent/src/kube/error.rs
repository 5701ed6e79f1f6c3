//! Failed requests to the API server.

use std::time::Duration;

use fairlead_api::error_chain;
use fairlead_apiserver::UpstreamError;
use serde_json::Value;

/// Delay after status 429 without `Retry-After`.
const THROTTLE_DEFAULT: Duration = Duration::from_secs(1);
/// Longest delay after status 429; the failure decides about a longer one.
const THROTTLE_MAX: Duration = Duration::from_secs(10);

/// Reason for a failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KubeError {
    /// The API server refused. The body is its `metav1.Status`, or null.
    #[error("the API server answers {status}{}", message(.body))]
    Status {
        /// Status of HTTP.
        status: u16,
        /// The `metav1.Status`, or null.
        body: Value,
    },
    /// The API server did not answer, or gave no usable answer. Writes may have been carried out.
    #[error("the API server does not answer: {0}")]
    Unreachable(String),
}

impl KubeError {
    /// Status of HTTP, if the API server answered.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            KubeError::Status { status, .. } => Some(*status),
            KubeError::Unreachable(_) => None,
        }
    }

    /// True if the API server is away or overloaded, so that the same request may succeed later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            KubeError::Unreachable(_) => true,
            KubeError::Status { status, .. } => matches!(status, 429 | 502..=504),
        }
    }

    /// Delay that an overloaded API server orders: it has not carried the request out.
    pub(super) fn throttle(&self) -> Option<Duration> {
        let KubeError::Status { status: 429, body } = self else {
            return None;
        };
        let seconds = body.pointer("/details/retryAfterSeconds");
        let delay = seconds.and_then(Value::as_u64).map(Duration::from_secs);
        Some(delay.unwrap_or(THROTTLE_DEFAULT).min(THROTTLE_MAX))
    }

    pub(super) fn unusable(cause: impl ToString) -> Self {
        KubeError::Unreachable(cause.to_string())
    }
}

impl From<UpstreamError> for KubeError {
    fn from(error: UpstreamError) -> Self {
        KubeError::Unreachable(error_chain(&error))
    }
}

fn message(body: &Value) -> String {
    let text = body.get("message").and_then(Value::as_str);
    text.map_or_else(String::new, |text| {
        let line: String = text.chars().filter(|c| !c.is_control()).take(300).collect();
        format!(": {line}")
    })
}
