//! The hello of an agent: the first request on each session, `POST /agent/v1/hello`. It travels inside the inner TLS, so no
//! intermediary can forge it. It distinguishes the agents of one cluster and the links of one agent, and it reveals an
//! identity that was copied into another Kubernetes cluster.

use std::{fmt, num::ParseIntError, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{HubUrl, checked_text::checked_text};

/// Path for the [`Hello`]; the agent repeats it when it learns the cluster's UID.
pub const HELLO_PATH: &str = "/agent/v1/hello";
/// Limit of the request body, in bytes.
pub const MAX_HELLO_BYTES: usize = 2048;

/// Body of `POST /agent/v1/hello`. The answer is a [`HelloResponse`], or `FL-2112`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Agent process that opened the session.
    pub instance: Instance,
    /// Link of that agent that carries the session.
    pub link: LinkIndex,
    /// UID of the cluster; `None` until the agent has read it from the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<ClusterUid>,
    /// Version of the agent.
    pub agent_version: String,
}

/// Answer to a [`Hello`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HelloResponse {
    /// Address of this hub in the list of all hubs; `None` if it is not in that list. The agent may have dialled another
    /// address, such as that of a load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubUrl>,
}

/// Identifier of one agent, 32 lower-case hexadecimal digits. In a pod it is the pod's UID, which survives restarts of the
/// process. Outside of a pod it is random for each process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Instance(u128);

/// Index of one of an agent's links, starting at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct LinkIndex(u8);

/// Number of links of an agent, 1 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCount(u8);

checked_text!(
    /// Identifier of a Kubernetes cluster: the UID of its namespace `kube-system`. 1 to 64 letters, digits and dashes.
    ClusterUid,
    HelloError,
    |text| {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if plain && (1..=64).contains(&text.len()) {
            Ok(text.into())
        } else {
            Err(HelloError::Uid)
        }
    }
);

/// Error of parsing a part of a [`Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The text is not an [`Instance`].
    #[error("an instance is 32 lower-case hexadecimal digits")]
    Instance,
    /// The text is not the UID of a pod.
    #[error("a pod's UID is 32 hexadecimal digits, with dashes or without")]
    Pod,
    /// The number is not a [`LinkCount`], or not a [`LinkIndex`].
    #[error("an agent has 1 to {} links", LinkCount::MAX_LINKS)]
    LinkCount,
    /// The text is not a [`ClusterUid`].
    #[error("a UID has 1 to 64 letters, digits and dashes")]
    Uid,
}

impl Instance {
    /// Makes an instance of 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Instance(u128::from_be_bytes(bytes))
    }

    /// The 16 bytes of the instance.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Instance of the agent in the pod with this UID.
    ///
    /// # Errors
    /// [`HelloError::Pod`] if the text is not such a UID.
    pub fn of_pod(uid: &str) -> Result<Self, HelloError> {
        let digits: String = uid.chars().filter(|c| *c != '-').collect();
        let instance = digits.to_ascii_lowercase().parse();
        instance.map_err(|_: HelloError| HelloError::Pod)
    }
}

impl FromStr for Instance {
    type Err = HelloError;
    fn from_str(text: &str) -> Result<Self, HelloError> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match u128::from_str_radix(text, 16) {
            Ok(number) if digits && text.len() == 32 => Ok(Instance(number)),
            _ => Err(HelloError::Instance),
        }
    }
}

impl TryFrom<String> for Instance {
    type Error = HelloError;
    fn try_from(text: String) -> Result<Self, HelloError> {
        text.parse()
    }
}

impl From<Instance> for String {
    fn from(instance: Instance) -> Self {
        instance.to_string()
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LinkIndex {
    /// The first link, which every agent has.
    pub const FIRST: LinkIndex = LinkIndex(0);

    /// The index as a number.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for LinkIndex {
    type Error = HelloError;
    fn try_from(index: u8) -> Result<Self, HelloError> {
        if index < LinkCount::MAX_LINKS {
            Ok(LinkIndex(index))
        } else {
            Err(HelloError::LinkCount)
        }
    }
}

impl From<LinkIndex> for u8 {
    fn from(link: LinkIndex) -> Self {
        link.0
    }
}

impl fmt::Display for LinkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl LinkCount {
    /// A single link, the default with one hub.
    pub const ONE: LinkCount = LinkCount(1);
    /// Two links, the default with several hubs.
    pub const TWO: LinkCount = LinkCount(2);
    /// Largest number of links of one agent.
    pub const MAX_LINKS: u8 = 8;

    /// Indexes of the largest number of links.
    pub fn all_possible() -> impl Iterator<Item = LinkIndex> {
        LinkCount(LinkCount::MAX_LINKS).all()
    }

    /// Indexes of all links.
    pub fn all(self) -> impl Iterator<Item = LinkIndex> {
        (0..self.0).map(LinkIndex)
    }
}

impl Default for LinkCount {
    fn default() -> Self {
        LinkCount::ONE
    }
}

impl FromStr for LinkCount {
    type Err = HelloError;
    fn from_str(text: &str) -> Result<Self, HelloError> {
        match text
            .parse()
            .map_err(|_: ParseIntError| HelloError::LinkCount)?
        {
            number @ 1..=LinkCount::MAX_LINKS => Ok(LinkCount(number)),
            _ => Err(HelloError::LinkCount),
        }
    }
}

/// Version reported by a peer, reduced to characters that are safe in a log line, at most 40.
#[must_use]
pub fn printable(version: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    version.chars().filter(plain).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b2f9c1e-7f4a-4c57-9f0e-6f1d3c1f2a10";

    #[test]
    fn hello_survives_a_round_trip() {
        let hello = Hello {
            instance: Instance::from_bytes([0xab; 16]),
            link: LinkIndex(3),
            cluster_uid: Some(UID.parse().unwrap()),
            agent_version: "0.1.0".to_owned(),
        };
        let text = serde_json::to_string(&hello).unwrap();
        assert!(
            text.contains(&"ab".repeat(16)) && text.contains(UID),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Hello>(&text).unwrap(), hello);
        let early = Hello {
            cluster_uid: None,
            ..hello
        };
        let text = serde_json::to_string(&early).unwrap();
        assert!(!text.contains("clusterUid"), "{text}");
        assert_eq!(serde_json::from_str::<Hello>(&text).unwrap(), early);
    }

    #[test]
    fn instance_of_a_pod_is_its_uid() {
        let expected = "0b2f9c1e7f4a4c579f0e6f1d3c1f2a10".parse();
        for uid in [UID, &UID.to_uppercase(), "0b2f9c1e7f4a4c579f0e6f1d3c1f2a10"] {
            assert_eq!(Instance::of_pod(uid), expected, "{uid}");
        }
        for uid in ["", "agent-7d4b9", &UID[1..], "-"] {
            assert_eq!(Instance::of_pod(uid), Err(HelloError::Pod), "{uid}");
        }
    }

    #[test]
    fn invalid_hello_is_refused() {
        let instance = "0".repeat(32);
        for (instance, link, uid) in [
            ("", "0", UID),
            ("0", "0", UID),
            (&"0".repeat(31), "0", UID),
            (&"0".repeat(33), "0", UID),
            (&"A".repeat(32), "0", UID),
            (&format!("+{}", "0".repeat(31)), "0", UID),
            (&instance, "8", UID),
            (&instance, "-1", UID),
            (&instance, "256", UID),
            (&instance, "0", ""),
            (&instance, "0", "a b"),
            (&instance, "0", "ä"),
            (&instance, "0", &"a".repeat(65)),
        ] {
            let text = format!(
                r#"{{"instance":"{instance}","link":{link},"clusterUid":"{uid}","agentVersion":""}}"#
            );
            assert!(serde_json::from_str::<Hello>(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn agent_has_one_to_eight_links() {
        for (text, most) in [
            ("1", Some(1)),
            ("8", Some(8)),
            ("0", None),
            ("9", None),
            ("x", None),
            ("", None),
        ] {
            let links = text.parse::<LinkCount>().ok();
            assert_eq!(links.map(|links| links.all().count()), most, "{text}");
        }
    }

    #[test]
    fn printable_version_has_no_control_characters() {
        assert_eq!(printable("0.1.0+b\nerror \x1b[31m"), "0.1.0+berror31m");
        assert_eq!(printable(&"1".repeat(99)).len(), 40);
    }
}
