//! Events of the agent in its own namespace, for people who look at its Deployment.

use fairlead_api::moment::timestamp;
use http::Method;
use serde_json::json;
use time::OffsetDateTime;
use tracing::debug;

use super::AgentContext;

/// Deployment of the install manifest, the subject of the Events.
const AGENT_NAME: &str = "fairlead-agent";
/// Limit of the API server for the message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Event of the agent.
pub(crate) struct AgentEvent {
    kind: &'static str,
    reason: &'static str,
    message: String,
}

impl AgentEvent {
    pub(crate) fn normal(reason: &'static str, message: String) -> Self {
        AgentEvent {
            kind: "Normal",
            reason,
            message: limited(message),
        }
    }

    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        AgentEvent {
            kind: "Warning",
            ..AgentEvent::normal(reason, message)
        }
    }
}

impl AgentContext {
    /// Writes an Event; without the right to do so the log alone has the message.
    pub(crate) async fn write_event(&self, namespace: &str, event: &AgentEvent) {
        let now = timestamp(OffsetDateTime::now_utc());
        let object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "generateName": format!("{AGENT_NAME}-"), "namespace": namespace },
            "involvedObject": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": AGENT_NAME,
                "namespace": namespace,
            },
            "type": event.kind,
            "reason": event.reason,
            "message": event.message,
            "source": { "component": AGENT_NAME },
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let written = self
            .upstream
            .request(Method::POST, &path, Some(object.to_string()));
        let reason = event.reason;
        match written.await {
            Ok((status, _)) if status.is_success() => {}
            Ok((status, _)) => debug!(reason, %status, "event not written"),
            Err(error) => debug!(reason, %error, "event not written"),
        }
    }
}

fn limited(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES - '…'.len_utf8()).rev();
        let end = end.into_iter().find(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_ends_at_a_character() {
        let short = "é".repeat(MAX_MESSAGE_BYTES / 2);
        assert_eq!(limited(short.clone()), short);
        let long = limited(short + "é");
        assert!(
            long.len() <= MAX_MESSAGE_BYTES && long.ends_with("é…"),
            "{long}"
        );
    }
}
