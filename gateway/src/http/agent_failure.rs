//! Failures that an agent reports about itself: a code in a header, and its cause as text.

use std::time::Duration;

use fairlead_api::{Code, Failure, headers::AGENT_CODE, hop::HUB_CODE};
use fairlead_exchange::Body;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::{body, lookup::first};

/// Parsed once.
static CODE: HeaderName = HeaderName::from_static(AGENT_CODE);
static FROM_HUB: HeaderName = HeaderName::from_static(HUB_CODE);
/// Maximum length of an agent's cause, in bytes.
const MAX_CAUSE_BYTES: usize = 2048;
const CAUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts only codes about the agent itself, its API server, and users that it does not impersonate.
///
/// Callers and the list of clusters are the hub's business.
fn allowed_code(code: &HeaderValue) -> Option<Code> {
    let code: Code = code.to_str().ok()?.parse().ok()?;
    let its_own = matches!(
        code,
        Code::BadPath | Code::BadRequest | Code::Internal | Code::NoImpersonation
    ) || (1500..1600).contains(&code.number());
    its_own.then_some(code)
}

/// Builds the failure that an agent reported by its code and a line of text.
pub(crate) async fn failure_from(code: Option<Code>, body: Body) -> Failure {
    let Some(code) = code else {
        return Failure::because(
            Code::TunnelBroke,
            "the agent reported a failure without a valid code",
        );
    };
    let text = timeout(CAUSE_TIMEOUT, body::read(body, MAX_CAUSE_BYTES)).await;
    let text = text.ok().flatten();
    let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default()).into_owned();
    let cause: String = text
        .trim()
        .trim_end_matches('.')
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if cause.is_empty() {
        Failure::new(code)
    } else if cause.starts_with(code.title()) {
        Failure::with_cause(code, cause)
    } else {
        Failure::because(code, cause)
    }
}

/// The code of another hub's failure in its answer; `Some(None)` for a code that no hub reports about a hop.
pub(crate) fn hub_code(headers: &HeaderMap) -> Option<Option<Code>> {
    let code = headers.get(&FROM_HUB)?;
    let code: Option<Code> = code.to_str().ok().and_then(|code| code.parse().ok());
    let is_of_hop = |code: &Code| {
        matches!(
            code,
            Code::BadPath | Code::BadRequest | Code::Internal | Code::AuditFull
        ) || (1400..1500).contains(&code.number())
    };
    Some(code.filter(is_of_hop))
}

/// The code in an agent's answer; `Some(None)` for a code that no agent may report.
pub(crate) fn agent_code(headers: &HeaderMap) -> Option<Option<Code>> {
    first(headers, &CODE).map(allowed_code)
}

#[cfg(test)]
mod tests;
