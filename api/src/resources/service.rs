//! Named services: addresses in clusters for which the hub listens.

use std::{fmt, ops::RangeInclusive, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{ClusterId, checked_text::checked_text, schema::text_schema};

/// Limit of a service's name: a DNS label (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 63;

/// The text is not a name of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {MAX_NAME_BYTES} lower-case letters, digits and inner dashes")]
pub struct ServiceNameError;

checked_text!(
    /// Name of a service: a DNS label, like `shop-db`.
    ServiceName,
    ServiceNameError,
    parse_name
);
text_schema!(ServiceName, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 63);

fn parse_name(text: &str) -> Result<Arc<str>, ServiceNameError> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = text.len() <= MAX_NAME_BYTES
        && text.bytes().all(|byte| is_letter(byte) || byte == b'-')
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().next_back().is_some_and(is_letter);
    is_label.then(|| text.into()).ok_or(ServiceNameError)
}

/// How the hub recognizes the connections of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceProtocol {
    /// By a port of the hub.
    Tcp,
    /// By the host of HTTP requests at the hub's front. The front ends TLS.
    Http,
    /// By the server name of TLS at the hub's front. The target ends TLS.
    Https,
}

impl ServiceProtocol {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ServiceProtocol::Tcp => "tcp",
            ServiceProtocol::Http => "http",
            ServiceProtocol::Https => "https",
        }
    }
}

impl fmt::Display for ServiceProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Body of `PUT /v1/services/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutService {
    /// Cluster of the target.
    pub cluster: ClusterId,
    /// Target in the cluster, `HOST:PORT` in its one spelling.
    #[schema(max_length = 262)]
    pub target: String,
    /// How the hub recognizes connections.
    pub protocol: ServiceProtocol,
    /// Port of the hub, for `tcp` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub port: Option<u16>,
    /// Host name at the hub's front in lower case, for `http` and `https` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 253)]
    pub host: Option<String>,
    /// Networks of clients, like `10.0.0.0/8`, 1 to 64 of them. `0.0.0.0/0` and `::/0` admit all.
    #[schema(min_items = 1, max_items = 64)]
    pub from: Vec<String>,
    /// True: a request needs a token of the hub with the role `tcp` for the cluster, for `http` only.
    #[serde(default)]
    pub callers: bool,
}

/// A named service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Service)]
pub struct ServiceDocument {
    /// Name of the service.
    pub name: ServiceName,
    /// Cluster of the target.
    pub cluster: ClusterId,
    /// Target in the cluster.
    pub target: String,
    /// How the hub recognizes connections.
    pub protocol: ServiceProtocol,
    /// Port of the hub, for `tcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Host name at the hub's front, for `http` and `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Networks of clients.
    pub from: Vec<String>,
    /// True: a request needs a token of the hub.
    pub callers: bool,
    /// Name of the last author.
    pub created_by: String,
    /// Time of the last definition.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// State at the answering hub.
    pub state: ServiceState,
}

/// State of a service at one hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceState {
    /// True while the hub accepts connections for the service.
    pub listening: bool,
    /// Reason why the hub does not listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Ports of the hub for services, like `20000-20999`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePorts(RangeInclusive<u16>);

/// The text is not a range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a range of ports, like 20000-20999")]
pub struct ServicePortsError;

impl ServicePorts {
    /// True if services may have this port.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }
}

impl Default for ServicePorts {
    fn default() -> Self {
        ServicePorts(20_000..=20_999)
    }
}

impl FromStr for ServicePorts {
    type Err = ServicePortsError;

    fn from_str(text: &str) -> Result<Self, ServicePortsError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse::<u16>().map_err(|_| ServicePortsError);
        let (first, last) = (port(first)?, port(last)?);
        match first > 0 && first <= last {
            true => Ok(ServicePorts(first..=last)),
            false => Err(ServicePortsError),
        }
    }
}

impl fmt::Display for ServicePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.start(), self.0.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_service_is_a_dns_label() {
        for good in ["a", "shop-db", "9"] {
            assert_eq!(good.parse::<ServiceName>().unwrap().as_str(), good);
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "ä", &long] {
            assert!(bad.parse::<ServiceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ports_of_services_are_a_range() {
        let ports: ServicePorts = "20000-20002".parse().unwrap();
        assert!(ports.contains(20_000) && ports.contains(20_002));
        assert!(!ports.contains(19_999) && !ports.contains(20_003));
        assert_eq!(ports.to_string(), "20000-20002");
        for bad in ["", "0-5", "7-6", "1-70000", "a-b", "1-2-3"] {
            assert!(bad.parse::<ServicePorts>().is_err(), "{bad:?}");
        }
    }
}
