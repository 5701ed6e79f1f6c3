//! Names of the headers that hub and agent say things to each other in. Both strip them from whatever comes in from
//! outside, so that nobody else can say them.

/// Put before every header of ours; whatever carries it and came from a client or an API server is removed.
pub const PREFIX: &str = "fairlead-";
/// Agent to gateway, on an answer that the agent itself made: the code, like `FL-1501`. The body is its cause as text.
pub const AGENT_CODE: &str = "fairlead-code";
/// Gateway to agent: the id by which log lines on both sides can be matched.
pub const REQUEST_ID: &str = "fairlead-request-id";
/// Agent to gateway: microseconds that the API server took to answer with its head.
pub const UPSTREAM_MICROS: &str = "fairlead-upstream-micros";
/// Hub to agent, on a probe: the hub is about to go, and finishes what runs. An agent that knows another address goes there.
pub const DRAINING: &str = "fairlead-draining";
/// Hub to agent, on a probe: how wide agents should spread when they dial again, in milliseconds.
pub const SPREAD: &str = "fairlead-spread-millis";
/// The path on which the agent answers the hub's probe by asking its API server's `/readyz`.
pub const PROBE_PATH: &str = "/.fairlead/probe";

/// Whether a header belongs to one hop and never passes a proxy (RFC 9110, section 7.6.1); the name in lower case.
///
/// `Expect` is one too: the hop in front has answered it. `Trailer` is not: it describes the body, which passes.
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
