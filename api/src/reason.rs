//! Body of failures of the hub's own API: `{"reason", "code", "next"}`. Failures of requests to clusters are sent as a
//! Kubernetes `Status` instead, see [`crate::status`].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::code::{Code, Failure};

/// Body of a failed response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// Cause of the failure, one line.
    pub reason: String,
    /// Code of the failure.
    #[schema(value_type = String, example = "FL-1301")]
    pub code: Code,
    /// Next step, one sentence.
    #[serde(default)]
    #[schema(required = true)]
    pub next: String,
    /// Parts of the cause for programs, like a list of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
}

impl Reason {
    /// The body as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Serialization of two texts and a number cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl From<&Failure> for Reason {
    fn from(failure: &Failure) -> Self {
        Reason {
            reason: failure.cause.replace(['\n', '\r'], " "),
            code: failure.code,
            next: failure.next_step().replace(['\n', '\r'], " "),
            details: failure.details.as_deref().cloned(),
        }
    }
}

impl From<Reason> for Failure {
    fn from(told: Reason) -> Self {
        let mut failure = Failure::with_cause(told.code, told.reason);
        failure.details = told.details.map(Box::new);
        if told.next.is_empty() || told.next == told.code.next_step() {
            failure
        } else {
            failure.next(told.next)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_survives_a_round_trip_on_one_line() {
        let failure = Failure::because(Code::InUse, "3 clusters\nare left");
        let body = Reason::from(&failure).to_json();
        let told: Reason = serde_json::from_slice(&body).unwrap();
        assert_eq!(told.next, Code::InUse.next_step());
        let failure = Failure::from(told);
        assert_eq!(failure.code, Code::InUse);
        assert_eq!(
            failure.cause,
            "the resource is still in use: 3 clusters are left"
        );
        assert_eq!(
            failure,
            Failure::because(Code::InUse, "3 clusters are left")
        );
        let own = failure.next("Delete them first.");
        assert_eq!(Failure::from(Reason::from(&own)), own);
        let listed = own.details(serde_json::json!({ "removed": ["c-a"] }));
        assert_eq!(Failure::from(Reason::from(&listed)), listed);
    }
}
