//! Names of the headers between hub and agent. Both remove these headers from requests of clients and from responses of the
//! API server, so that no third party can set them.

use std::time::Duration;

/// Prefix of all headers between hub and agent.
pub const PREFIX: &str = "fairlead-";
/// Agent to gateway, on responses made by the agent: the code, like `FL-1501`. The body is the cause as text.
pub const AGENT_CODE: &str = "fairlead-code";
/// Gateway to client, on its own failures: request id.
pub const REQUEST_ID: &str = "fairlead-request-id";
/// Gateway to agent and API server: request id, written to the logs of hub and agent, and `auditID` of the API server's own
/// events. At most 64 bytes.
pub const AUDIT_ID: &str = "audit-id";
/// Agent to gateway: microseconds until the response head of the API server.
pub const UPSTREAM_MICROS: &str = "fairlead-upstream-micros";
/// Hub to agent, on a probe: the hub is shutting down. An agent with another address moves there.
pub const DRAINING: &str = "fairlead-draining";
/// Hub to agent, on a probe: milliseconds over which agents should spread their reconnects.
pub const SPREAD: &str = "fairlead-spread-millis";
/// Hub to agent, on a probe: addresses of all hubs for agents, see [`crate::hub_list`].
pub const HUBS: &str = "fairlead-hubs";
/// Prefix of paths on a stream that mean the agent itself. Clients may not use it.
pub const AGENT_PATH_PREFIX: &str = "/.fairlead/";
/// Path of the hub's probe; the agent answers it with the result of its API server's `/readyz`.
pub const PROBE_PATH: &str = "/.fairlead/probe";
/// Hub to agent, on a probe: if the API server is ready, the next probe comes only after so many seconds. Until then the agent
/// checks it every [`CHECK_INTERVAL`], and reports a change to [`CHANGED_PATH`].
pub const WATCH_SECONDS: &str = "fairlead-watch-seconds";
/// Path of an agent's report that the answer to a probe would be another one now. The hub probes at once.
pub const CHANGED_PATH: &str = "/agent/v1/changed";
/// Interval of checks of an API server.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// True for hop-by-hop headers, which a proxy must not forward (RFC 9110, section 7.6.1). `name` is in lower case.
///
/// `Expect` is included because the previous hop has answered it. `Trailer` is not, because it describes the forwarded body.
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
            | "expect"
    ) || name.starts_with("proxy-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_hop_are_known_by_name() {
        for name in [
            "connection",
            "keep-alive",
            "te",
            "transfer-encoding",
            "upgrade",
            "http2-settings",
            "expect",
            "proxy-connection",
            "proxy-authenticate",
            "proxy-authorization",
        ] {
            assert!(is_hop_by_hop(name), "{name}");
        }
        for name in [
            "trailer",
            "content-length",
            "upgrade-insecure-requests",
            "proxy",
        ] {
            assert!(!is_hop_by_hop(name), "{name}");
        }
    }
}
