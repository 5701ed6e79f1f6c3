//! Configuration file of the audit log (`--audit-config`).

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr, time::Duration};

use fairlead_api::TimeSpan;
use fairlead_runtime::config::MemorySize;
use reqwest::Url;
use serde::{Deserialize, Deserializer, de::Error as _};

/// Content of the configuration file; everything is optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AuditConfig {
    /// Reaction to events that cannot be written.
    pub(crate) on_full: OnFull,
    /// Size at which a new file begins.
    pub(crate) segment_size: Option<Parsed<MemorySize>>,
    /// Age at which a new file begins.
    pub(crate) segment_age: Option<Parsed<TimeSpan>>,
    /// Longest time until events are synced to the disk.
    pub(crate) sync: Option<Parsed<TimeSpan>>,
    /// Syslog servers by name.
    pub(crate) syslog: BTreeMap<SinkName, SyslogConfig>,
    /// Webhooks by name.
    pub(crate) webhook: BTreeMap<SinkName, HttpConfig>,
    /// Collectors of OpenTelemetry by name.
    pub(crate) otlp: BTreeMap<SinkName, HttpConfig>,
    /// Policy of recordings; without one nothing is recorded.
    pub(crate) recording: Option<RecordingConfig>,
}

/// Reaction to events that cannot be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// New requests are refused; no event is lost.
    #[default]
    Refuse,
    /// Events are dropped and counted.
    Drop,
}

/// Policy of recordings. An empty list covers all.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RecordingConfig {
    /// Public key of the auditor.
    pub(crate) recipient: Parsed<age::x25519::Recipient>,
    #[serde(default)]
    pub(crate) clusters: Vec<String>,
    #[serde(default)]
    pub(crate) tenants: Vec<String>,
    #[serde(default)]
    pub(crate) roles: Vec<String>,
    /// Keystrokes as well, which may be passwords.
    #[serde(default)]
    pub(crate) input: bool,
    /// No session without a recording.
    #[serde(default = "default_required")]
    pub(crate) required: bool,
    /// Age at which a recording is removed; kept for ever without.
    pub(crate) keep: Option<Parsed<TimeSpan>>,
    /// Total size of all recordings, beyond which the oldest are removed.
    pub(crate) max_size: Option<Parsed<MemorySize>>,
}

const fn default_required() -> bool {
    true
}

/// Name of a sink, which is a part of a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SinkName(pub(crate) String);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SyslogConfig {
    pub(crate) address: Parsed<SyslogAddress>,
    pub(crate) ca_file: Option<PathBuf>,
}

/// Address of a syslog server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyslogAddress {
    Tcp(String),
    /// Address and server name.
    Tls(String, String),
    Unix(PathBuf),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct HttpConfig {
    pub(crate) url: Parsed<HttpUrl>,
    /// File with a bearer token, read for each batch.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    /// Events per request.
    #[serde(default = "default_batch")]
    pub(crate) batch: Parsed<BatchSize>,
}

fn default_batch() -> Parsed<BatchSize> {
    Parsed(BatchSize(500))
}

#[derive(Debug, Clone)]
pub(crate) struct HttpUrl(pub(crate) Url);

#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSize(pub(crate) usize);

/// A value that is parsed from text, or from a number.
#[derive(Debug, Clone)]
pub(crate) struct Parsed<T>(pub(crate) T);

impl<'de, T> Deserialize<'de> for Parsed<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TextOrNumber {
            Text(String),
            Number(u64),
        }
        let text = match TextOrNumber::deserialize(deserializer)? {
            TextOrNumber::Text(text) => text,
            TextOrNumber::Number(number) => number.to_string(),
        };
        text.parse().map(Parsed).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SinkName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 40 || !name.bytes().all(fits) {
            let cause = "a name has 1 to 40 lower-case letters, digits and hyphens";
            return Err(D::Error::custom(cause));
        }
        Ok(SinkName(name))
    }
}

impl FromStr for BatchSize {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let size = text.parse().ok().filter(|size| (1..=10_000).contains(size));
        size.map(BatchSize).ok_or("a batch has 1 to 10000 events")
    }
}

impl FromStr for HttpUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        if !is_http || !url.username().is_empty() || url.password().is_some() {
            return Err("expected http://HOST/PATH or https://HOST/PATH without a user".to_owned());
        }
        Ok(HttpUrl(url))
    }
}

impl FromStr for SyslogAddress {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "expected tcp://HOST:PORT, tls://HOST:PORT or unix:///PATH";
        let (scheme, rest) = text.split_once("://").ok_or(wrong)?;
        let host = || {
            let (host, port) = rest.rsplit_once(':')?;
            port.parse::<u16>().ok()?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            (!host.is_empty()).then(|| host.to_owned())
        };
        match scheme {
            "tcp" => host().map(|_| SyslogAddress::Tcp(rest.to_owned())),
            "tls" => host().map(|host| SyslogAddress::Tls(rest.to_owned(), host)),
            "unix" if rest.starts_with('/') => Some(SyslogAddress::Unix(rest.into())),
            _ => None,
        }
        .ok_or(wrong)
    }
}

impl AuditConfig {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The mistake with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: AuditConfig = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.bytes().take(at);
            let line = before.filter(|byte| *byte == b'\n').count() + 1;
            format!("line {line}: {}", error.message())
        })?;
        for (kind, sinks) in [("webhook", &config.webhook), ("otlp", &config.otlp)] {
            for (name, sink) in sinks {
                let url = &sink.url.0.0;
                let is_local = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
                if sink.token_file.is_some() && url.scheme() == "http" && !is_local {
                    let name = &name.0;
                    return Err(format!(
                        "[{kind}.{name}] a token may not travel over plain http: use https"
                    ));
                }
            }
        }
        Ok(config)
    }

    /// Reaction to events that cannot be written.
    #[must_use]
    pub const fn on_full(&self) -> OnFull {
        self.on_full
    }

    /// Sets the settings of the files that the configuration names.
    pub fn apply(&self, journal: &mut crate::journal::JournalSettings) {
        let set = |span: &Option<Parsed<TimeSpan>>, to: &mut Duration| {
            if let Some(Parsed(span)) = span {
                *to = span.0;
            }
        };
        set(&self.segment_age, &mut journal.segment_age);
        set(&self.sync, &mut journal.sync);
        if let Some(Parsed(size)) = &self.segment_size {
            journal.segment_bytes = size.0 as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            ("on-full = \"maybe\"", "line 1: "),
            ("\nsegment-size = \"64MB\"", "line 2: "),
            (
                "[syslog.siem]\naddress = \"udp://a:1\"",
                "line 2: expected tcp://",
            ),
            (
                "[webhook.a]\nurl = \"ftp://a/\"",
                "line 2: expected http://",
            ),
            ("[webhook.a]\n\n\nnone = 1", "line "),
            ("[webhook.A_B]\nurl = \"https://a/\"", "a name has"),
            (
                "[otlp.a]\nurl = \"http://a/\"\ntoken-file = \"/t\"",
                "plain http",
            ),
        ] {
            let mistake = AuditConfig::parse(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
    }

    #[test]
    fn whole_configuration_is_read() {
        let config = AuditConfig::parse(
            "on-full = \"drop\"\nsegment-size = \"1MiB\"\nsegment-age = \"1h\"\nsync = \"0s\"\n\
             [syslog.siem]\naddress = \"tls://siem.example:6514\"\nca-file = \"/ca.pem\"\n\
             [webhook.archive]\nurl = \"https://a.example/x\"\ntoken-file = \"/t\"\nbatch = 10\n\
             [otlp.local]\nurl = \"http://127.0.0.1:4318/v1/logs\"\n",
        )
        .unwrap();
        let mut journal = crate::journal::JournalSettings::of("/x".into(), "hub".to_owned());
        config.apply(&mut journal);
        assert_eq!(config.on_full(), OnFull::Drop);
        assert_eq!(
            (journal.segment_bytes, journal.sync),
            (1 << 20, Duration::ZERO)
        );
        let [syslog] = &config.syslog.values().collect::<Vec<_>>()[..] else {
            panic!("{config:?}");
        };
        let tls = SyslogAddress::Tls("siem.example:6514".to_owned(), "siem.example".to_owned());
        assert_eq!(syslog.address.0, tls);
        assert_eq!(config.webhook.values().next().unwrap().batch.0.0, 10);
    }
}
