//! Settings of the export of traces.

use std::{collections::HashMap, fmt, str::FromStr};

use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// Path of traces below the address of a collector (OTLP/HTTP).
const TRACES_PATH: &str = "v1/traces";

/// Settings of the export of traces.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// Address of the collector.
    pub endpoint: OtlpEndpoint,
    /// Headers of each export, with the credential of the collector.
    pub headers: OtlpHeaders,
    /// Authorities of the collector in PEM, beside those of the system.
    pub ca: Option<String>,
    /// Share of the requests without a sampling decision of their client.
    pub ratio: SampleRatio,
    /// Name of the service, like `fairlead-hub`.
    pub service: String,
}

/// URL to which traces are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(Url);

/// Error of an address of a collector.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No URL.
    #[error("it is no URL: {0}")]
    NoUrl(#[from] url::ParseError),
    /// Another scheme, as of gRPC without HTTP.
    #[error("expected http:// or https://, like http://collector.example.com:4318")]
    Scheme,
    /// A user, a password, a query or a fragment.
    #[error(
        "it must have no user, password, query or fragment; a credential belongs into a header"
    )]
    Extra,
}

impl OtlpEndpoint {
    /// The URL that takes traces of any path, as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` names it.
    ///
    /// # Errors
    /// As for parsing.
    pub fn of_traces(text: &str) -> Result<Self, EndpointError> {
        checked(text).map(OtlpEndpoint)
    }

    /// The URL of the export.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for OtlpEndpoint {
    type Err = EndpointError;

    /// Parses the address of a collector. Traces go to `/v1/traces` below it.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut url = checked(text)?;
        let path = url.path().trim_end_matches('/');
        if !path.ends_with(TRACES_PATH) {
            let path = format!("{path}/{TRACES_PATH}");
            url.set_path(&path);
        }
        Ok(OtlpEndpoint(url))
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn checked(text: &str) -> Result<Url, EndpointError> {
    let url = Url::parse(text.trim())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(EndpointError::Scheme);
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || url.query().is_some() || url.fragment().is_some() {
        return Err(EndpointError::Extra);
    }
    Ok(url)
}

/// Headers of exports, which may be secrets: `name=value`, separated by commas or lines.
#[derive(Debug, Clone, Default)]
pub struct OtlpHeaders(Vec<(HeaderName, SecretString)>);

/// Error of a header. It never quotes a value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("header {0} is not valid: expected name=value, separated by commas or lines")]
pub struct HeaderError(usize);

impl FromStr for OtlpHeaders {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        let parts = text.split([',', '\n']).map(str::trim);
        let parts = parts.filter(|it| !it.is_empty()).enumerate();
        let headers = parts.map(|(at, part)| {
            let error = HeaderError(at + 1);
            let (name, value) = part.split_once('=').ok_or(HeaderError(at + 1))?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| HeaderError(at + 1))?;
            match HeaderValue::from_str(value.trim()) {
                Ok(_) => Ok((name, SecretString::from(value.trim()))),
                Err(_) => Err(error),
            }
        });
        headers.collect::<Result<_, _>>().map(OtlpHeaders)
    }
}

impl OtlpHeaders {
    pub(crate) fn to_map(&self) -> HashMap<String, String> {
        let pairs = self.0.iter();
        let pairs = pairs.map(|(name, value)| (name.to_string(), value.expose_secret().to_owned()));
        pairs.collect()
    }
}

/// Share of requests, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleRatio(f64);

impl SampleRatio {
    /// Each request.
    pub const ALL: SampleRatio = SampleRatio(1.0);

    pub(crate) fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for SampleRatio {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let ratio = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
        ratio
            .map(SampleRatio)
            .ok_or("expected a number from 0 to 1, like 0.01")
    }
}

#[test]
fn traces_go_below_the_address_of_a_collector() {
    for (given, expected) in [
        ("http://a:4318", "http://a:4318/v1/traces"),
        ("https://a/otlp/", "https://a/otlp/v1/traces"),
        ("https://a/v1/traces", "https://a/v1/traces"),
    ] {
        assert_eq!(given.parse::<OtlpEndpoint>().unwrap().as_str(), expected);
    }
    let own = OtlpEndpoint::of_traces("https://a/in").unwrap();
    assert_eq!(own.as_str(), "https://a/in");
    for wrong in [
        "a:4318",
        "grpc://a:4317",
        "http://u:p@a",
        "http://a?key=1",
        "",
    ] {
        assert!(wrong.parse::<OtlpEndpoint>().is_err(), "{wrong}");
    }
}

#[test]
fn errors_of_headers_quote_no_value() {
    let headers: OtlpHeaders = "a=b=c, authorization=Bearer secret\n".parse().unwrap();
    assert_eq!(headers.to_map()["a"], "b=c");
    assert_eq!(headers.to_map()["authorization"], "Bearer secret");
    assert!(!format!("{headers:?}").contains("secret"));
    let error = "a=b,secret".parse::<OtlpHeaders>().unwrap_err();
    assert_eq!(error, HeaderError(2));
    assert!(!error.to_string().contains("secret"));
}

#[test]
fn ratio_is_a_share() {
    assert_eq!("0.25".parse::<SampleRatio>(), Ok(SampleRatio(0.25)));
    assert_eq!("1".parse::<SampleRatio>(), Ok(SampleRatio::ALL));
    for wrong in ["1.1", "-0.1", "NaN", "10%", ""] {
        assert!(wrong.parse::<SampleRatio>().is_err(), "{wrong}");
    }
}
