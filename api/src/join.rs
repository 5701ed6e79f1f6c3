//! The join string: an opaque text with all data for the enrolment of an agent. It has the URLs and the CA pin of the hub, and
//! a bootstrap token. Format: `fl1.` + base64url (no padding) of the payload and its checksum (4 bytes).
//!
//! Payload: CA pin (32 bytes), token, URLs. Token and URLs have a length byte before them. While the CA is rotated, the
//! string starts with `fl2.` and has two pins.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// Limit of a join string, in bytes.
pub const MAX_JOIN_STRING_BYTES: usize = 4096;
const ONE_PIN: &str = "fl1.";
const TWO_PINS: &str = "fl2.";
const MAX_URLS: usize = 8;

/// SHA-256 of the SubjectPublicKeyInfo of the hub's CA (the pin of RFC 7469).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaPin(pub [u8; 32]);

impl TryFrom<String> for CaPin {
    type Error = JoinError;
    fn try_from(text: String) -> Result<Self, JoinError> {
        text.parse()
    }
}

impl From<CaPin> for String {
    fn from(pin: CaPin) -> Self {
        pin.to_string()
    }
}

/// Pins of the hubs' CA: one, or two while the CA is rotated. A hub of either is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CaPins {
    first: CaPin,
    second: Option<CaPin>,
}

impl CaPins {
    /// The pin of the present CA, and that of the next one.
    #[must_use]
    pub fn new(first: CaPin, second: Option<CaPin>) -> Self {
        CaPins {
            first,
            second: second.filter(|second| *second != first),
        }
    }

    /// The pin of the older CA.
    #[must_use]
    pub const fn first(&self) -> CaPin {
        self.first
    }

    /// The pin of the newer CA.
    #[must_use]
    pub fn last(&self) -> CaPin {
        self.second.unwrap_or(self.first)
    }

    /// All pins, older first.
    pub fn iter(&self) -> impl Iterator<Item = CaPin> + use<> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    /// Whether this CA is one of them.
    #[must_use]
    pub fn contains(&self, pin: CaPin) -> bool {
        self.first == pin || self.second == Some(pin)
    }
}

impl From<CaPin> for CaPins {
    fn from(pin: CaPin) -> Self {
        CaPins::new(pin, None)
    }
}

impl fmt::Display for CaPins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        match self.second {
            Some(second) => write!(f, " or {second}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Display for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for CaPin {
    type Err = JoinError;
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let bytes = text
            .strip_prefix("sha256:")
            .and_then(|hash| URL_SAFE_NO_PAD.decode(hash).ok());
        bytes
            .and_then(|b| b.try_into().ok())
            .map(CaPin)
            .ok_or(JoinError::Encoding)
    }
}

/// URL of a hub: `https://host[:port]` without a path.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HubUrl {
    host: String,
    port: u16,
}

impl HubUrl {
    /// Host name or address; an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port, 443 by default.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` in the form of a Host header or a CONNECT request.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority();
        write!(
            f,
            "https://{}",
            authority.strip_suffix(":443").unwrap_or(&authority)
        )
    }
}

impl fmt::Debug for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for HubUrl {
    type Err = JoinError;
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let bad = || JoinError::Url(text.to_owned());
        let rest = text.strip_prefix("https://").ok_or_else(bad)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = if let Some(v6) = rest.strip_prefix('[') {
            let (host, port) = v6.split_once(']').ok_or_else(bad)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':').ok_or_else(bad)?)
                },
            )
        } else {
            rest.split_once(':')
                .map_or((rest, None), |(host, port)| (host, Some(port)))
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if host.is_empty() || host.len() > 253 || !host.chars().all(allowed) {
            return Err(bad());
        }
        let port = match port {
            None => 443,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(bad)?,
        };
        Ok(HubUrl {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

impl TryFrom<String> for HubUrl {
    type Error = JoinError;
    fn try_from(text: String) -> Result<Self, JoinError> {
        text.parse()
    }
}

impl From<HubUrl> for String {
    fn from(url: HubUrl) -> Self {
        url.to_string()
    }
}

/// Error of parsing a join string or one of its parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The prefix is missing.
    #[error("a join string starts with {ONE_PIN} or {TWO_PINS}")]
    Version,
    /// The text is longer than [`MAX_JOIN_STRING_BYTES`].
    #[error("it is longer than {MAX_JOIN_STRING_BYTES} bytes")]
    TooLong,
    /// The text is not valid base64url, or truncated.
    #[error("it has invalid characters, or is truncated")]
    Encoding,
    /// The checksum does not match.
    #[error("its checksum does not match: a character was changed or lost")]
    Checksum,
    /// The number of hubs is not allowed.
    #[error("it has no hub, or more than {MAX_URLS}")]
    Hubs,
    /// The text is not a [`HubUrl`].
    #[error("{0:?} is not https://host[:port]")]
    Url(String),
    /// A part does not fit its length byte.
    #[error("a part of it is longer than 255 bytes")]
    PartTooLong,
}

/// Data for the enrolment of one agent. It is a secret: it permits one enrolment in the cluster's name.
#[derive(Debug, Clone)]
pub struct JoinString {
    /// URLs of the hubs.
    pub hubs: Vec<HubUrl>,
    /// Pins of the hubs' CA.
    pub ca_pins: CaPins,
    /// Bootstrap token.
    pub token: SecretString,
}

impl JoinString {
    /// Encodes the join string as text.
    ///
    /// # Errors
    /// [`JoinError::Hubs`] or [`JoinError::PartTooLong`]: the text could not be parsed again.
    pub fn encode(&self) -> Result<SecretString, JoinError> {
        if self.hubs.is_empty() || self.hubs.len() > MAX_URLS {
            return Err(JoinError::Hubs);
        }
        let mut payload = Vec::new();
        for pin in self.ca_pins.iter() {
            payload.extend_from_slice(&pin.0);
        }
        let mut put = |part: &str| {
            payload.push(u8::try_from(part.len()).map_err(|_| JoinError::PartTooLong)?);
            payload.extend_from_slice(part.as_bytes());
            Ok(())
        };
        put(self.token.expose_secret())?;
        for hub in &self.hubs {
            put(&hub.to_string())?;
        }
        payload.extend_from_slice(&checksum(&payload));
        let version = match self.ca_pins.second {
            None => ONE_PIN,
            Some(_) => TWO_PINS,
        };
        Ok(format!("{version}{}", URL_SAFE_NO_PAD.encode(payload)).into())
    }
}

impl FromStr for JoinString {
    type Err = JoinError;
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let text = text.trim();
        if text.len() > MAX_JOIN_STRING_BYTES {
            return Err(JoinError::TooLong);
        }
        let (encoded, has_two_pins) = match text.strip_prefix(ONE_PIN) {
            Some(encoded) => (encoded, false),
            None => (text.strip_prefix(TWO_PINS).ok_or(JoinError::Version)?, true),
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(encoded)
            .map_err(|_| JoinError::Encoding)?;
        let (payload, sum) = bytes.split_last_chunk::<4>().ok_or(JoinError::Encoding)?;
        if checksum(payload) != *sum {
            return Err(JoinError::Checksum);
        }
        let pin = |bytes| {
            let (pin, rest) = <[u8]>::split_first_chunk::<32>(bytes)?;
            Some((CaPin(*pin), rest))
        };
        let (first, mut rest) = pin(payload).ok_or(JoinError::Encoding)?;
        let mut ca_pins = CaPins::from(first);
        if has_two_pins {
            let (second, after) = pin(rest).ok_or(JoinError::Encoding)?;
            (ca_pins, rest) = (CaPins::new(first, Some(second)), after);
        }
        let mut parts = Parts(rest);
        let token = parts.next().ok_or(JoinError::Encoding)??.to_owned();
        let hubs = parts
            .map(|part| part?.parse())
            .collect::<Result<Vec<HubUrl>, _>>()?;
        if hubs.is_empty() || hubs.len() > MAX_URLS {
            return Err(JoinError::Hubs);
        }
        Ok(JoinString {
            hubs,
            ca_pins,
            token: token.into(),
        })
    }
}

/// Iterator over texts that are prefixed with a length byte.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Result<&'a str, JoinError>;
    fn next(&mut self) -> Option<Self::Item> {
        let (&len, rest) = self.0.split_first()?;
        let Some((part, rest)) = rest.split_at_checked(usize::from(len)) else {
            self.0 = &[];
            return Some(Err(JoinError::Encoding));
        };
        self.0 = rest;
        Some(str::from_utf8(part).map_err(|_| JoinError::Encoding))
    }
}

/// CRC-32 (ISO-HDLC, as in gzip). It detects copying mistakes; it does not protect against forgery.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    (!crc).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> JoinString {
        JoinString {
            hubs: vec![
                "https://hub.example.test".parse().unwrap(),
                "https://[::1]:8443".parse().unwrap(),
            ],
            ca_pins: CaPin([7; 32]).into(),
            token: "c-demo.1.1795244000.c2VjcmV0".into(),
        }
    }

    #[test]
    fn it_reads_back_whole() {
        let text = example().encode().unwrap();
        let back: JoinString = text.expose_secret().parse().unwrap();
        assert_eq!(back.hubs, example().hubs);
        assert_eq!(back.ca_pins, example().ca_pins);
        assert_eq!(back.token.expose_secret(), example().token.expose_secret());
        assert!(
            format!("  {}\n", text.expose_secret())
                .parse::<JoinString>()
                .is_ok(),
            "spaces around it do no harm"
        );
    }

    #[test]
    fn two_pins_survive_a_round_trip() {
        let pins = CaPins::new(CaPin([7; 32]), Some(CaPin([8; 32])));
        let join = JoinString {
            ca_pins: pins,
            ..example()
        };
        let text = join.encode().unwrap();
        assert!(text.expose_secret().starts_with("fl2."));
        let back: JoinString = text.expose_secret().parse().unwrap();
        assert_eq!(back.ca_pins, pins);
        assert_eq!(back.hubs, example().hubs);
        assert!(pins.contains(CaPin([8; 32])) && !pins.contains(CaPin([9; 32])));
        assert_eq!((pins.first().0, pins.last().0), ([7; 32], [8; 32]));
    }

    #[test]
    fn every_single_slip_is_noticed() {
        let text = example().encode().unwrap().expose_secret().to_owned();
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert!(wrong.parse::<JoinString>().is_err(), "changed at {at}");
            assert!(text[..at].parse::<JoinString>().is_err(), "cut at {at}");
        }
    }

    #[test]
    fn its_debug_hides_the_token() {
        assert!(!format!("{:?}", example()).contains("c2VjcmV0"));
    }

    #[test]
    fn checksum_is_the_standard_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926_u32.to_be_bytes());
    }

    #[test]
    fn a_hub_url_is_https_host_and_port_only() {
        for (text, shown) in [
            ("https://hub", "https://hub"),
            ("https://Hub:443/", "https://hub"),
            ("https://10.0.0.1:8443", "https://10.0.0.1:8443"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(text.parse::<HubUrl>().unwrap().to_string(), shown);
        }
        for bad in [
            "http://hub",
            "https://",
            "https://a/b",
            "https://a@b",
            "https://a:0",
            "https://a:x",
            "https://a b",
            "https://[::1",
            "hub",
        ] {
            assert!(bad.parse::<HubUrl>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = text.parse::<JoinString>();
            let _ = format!("fl1.{text}").parse::<JoinString>();
            let _ = format!("fl2.{text}").parse::<JoinString>();
        }

        #[test]
        fn whatever_parses_encodes_again(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let mut payload = bytes;
            payload.extend_from_slice(&checksum(&payload.clone()));
            let encoded = URL_SAFE_NO_PAD.encode(payload);
            for version in [ONE_PIN, TWO_PINS] {
                if let Ok(join) = format!("{version}{encoded}").parse::<JoinString>() {
                    prop_assert!(join.encode().is_ok());
                }
            }
        }
    }
}
