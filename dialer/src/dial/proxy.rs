//! The path to a hub, or of a hub to a Git server: direct, or CONNECT through an HTTP proxy, in plain or in TLS.
//! HTTPS_PROXY and NO_PROXY are read as by curl. The proxy's password must not appear in any text.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use fairlead_api::{Code, HubUrl, error_chain, percent};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper_util::client::proxy::matcher::Matcher;
use rustls::{ClientConfig, pki_types::ServerName};
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{
    error::{DialError, DialStage, step},
    outer::outer_error,
    path_stream::PathStream,
    tcp,
    trace::{DialTrace, boxes},
    upgrade::{NotSwitched, Switched, switch},
};

const CHECK_PROXY: &str = "Check that HTTPS_PROXY is right and that this proxy runs; a hub that needs none belongs into NO_PROXY.";
const TRUST_PROXY: &str = "Set the CA of the proxy's certificate with `--ca-file`, and name the proxy in HTTPS_PROXY as its certificate does.";
const NO_BASIC: &str = "Ask the operator of the proxy for Basic authentication or for access without it, or set HTTPS_PROXY to a local proxy that speaks its scheme (such as cntlm or px).";

/// Proxy rules from HTTPS_PROXY and NO_PROXY, read as by curl.
///
/// Loopback addresses (127.0.0.0/8, ::1, `localhost`) are always connected to directly.
///
/// A proxy is `[http://|https://][user:password@]host[:port]` with default port 1080, or 443 with
/// TLS; SOCKS proxies are refused. User and password are percent-encoded. NO_PROXY is a list (commas or blanks) of names, addresses, networks (`10.0.0.0/8`),
/// or `*` for all. A name includes its subdomains; a leading dot has no meaning.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules(Option<Arc<ConfiguredProxy>>);

#[derive(Debug)]
struct ConfiguredProxy {
    proxy: Proxy,
    exceptions: Matcher,
}

#[derive(Debug)]
struct Proxy {
    host: String,
    port: u16,
    /// Whether the proxy itself is reached by TLS.
    tls: bool,
    /// Value of `Proxy-Authorization`.
    credentials: Option<SecretString>,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", authority(&self.host, self.port))
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// An HTTP proxy for clients that connect on their own.
#[derive(Debug, Clone)]
pub struct HttpProxy {
    /// `http://host:port` or `https://host:port`, without credentials.
    pub url: String,
    /// Value of `Proxy-Authorization`.
    pub authorization: Option<SecretString>,
}

/// Parts of a dial that the path to a hub needs.
#[derive(Clone, Copy)]
pub(super) struct PathContext<'a> {
    /// TLS towards a proxy.
    pub(super) proxy_tls: Option<&'a Arc<ClientConfig>>,
    pub(super) trace: &'a DialTrace,
}

/// Connection, ready for the hub's TLS.
pub struct Connected {
    pub(super) stream: PathStream,
    /// Remote address: the hub's or the proxy's.
    pub address: SocketAddr,
}

impl Connected {
    /// The connection itself.
    pub fn into_stream(self) -> impl AsyncRead + AsyncWrite + Send + Unpin {
        self.stream
    }
}

/// TCP connection through a proxy to an address that is no hub.
#[derive(Debug)]
pub struct Tunnel {
    /// Connection to the proxy, ready for the far end.
    pub tcp: TcpStream,
    /// Bytes that the far end has sent already.
    pub received: Bytes,
    /// `http://host:port` of the proxy, without credentials.
    pub proxy: String,
}

/// Error for a 407, by the schemes that the proxy offers (RFC 9110, 11.7.1). Only Basic is
/// supported.
fn wants_credentials(cause: String, headers: &HeaderMap) -> DialError {
    let offers = headers.get_all(header::PROXY_AUTHENTICATE);
    let schemes: Vec<&str> = offers
        .iter()
        .filter_map(|offer| offer.to_str().ok())
        .flat_map(|offer| offer.split(','))
        .filter_map(|part| part.split_whitespace().next())
        // Other words are parameters of the scheme before them.
        .filter(|word| !word.contains('='))
        .collect();
    let takes_basic = |scheme: &&str| scheme.eq_ignore_ascii_case("Basic");
    if schemes.is_empty() || schemes.iter().any(takes_basic) {
        return DialError::new(DialStage::Proxy, Code::DialProxyAuth, cause);
    }
    let offered = schemes.join(", ");
    let cause = format!("{cause}; it takes {offered} only, and Fairlead speaks Basic only");
    DialError::new(DialStage::Proxy, Code::DialProxyAuth, cause).next(NO_BASIC)
}

/// Addresses of this machine: a proxy elsewhere would reach its own. hyper-util has no such exception.
fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => {
            let host = host.trim_end_matches('.');
            host.eq_ignore_ascii_case("localhost")
        }
    }
}

impl ProxyRules {
    /// Reads the values of HTTPS_PROXY and NO_PROXY.
    ///
    /// # Errors
    ///
    /// One sentence on the mistake in the proxy's URL, without its password.
    pub fn parse(https_proxy: Option<&str>, no_proxy: Option<&str>) -> Result<Self, String> {
        let Some(https_proxy) = https_proxy.map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(ProxyRules(None));
        };
        let proxy = proxy(https_proxy)?;
        // Decides about exceptions only, because it reports no mistake in the proxy's URL and has another default port.
        let exceptions = Matcher::builder()
            .https("http://proxy")
            .no(normalized(no_proxy.unwrap_or_default()))
            .build();
        Ok(ProxyRules(Some(Arc::new(ConfiguredProxy {
            proxy,
            exceptions,
        }))))
    }

    /// Describes the path to this hub for the log, without credentials.
    #[must_use]
    pub fn explain(&self, hub: &HubUrl) -> String {
        match &self.0 {
            None => "directly: HTTPS_PROXY is not set".to_owned(),
            Some(_) if is_loopback(hub.host()) => {
                "directly: a loopback address needs no proxy".to_owned()
            }
            Some(configured) if configured.excepts(hub.host(), hub.port()) => {
                format!("directly: NO_PROXY covers {}", hub.host())
            }
            Some(configured) => format!("through {}, from HTTPS_PROXY", configured.proxy),
        }
    }

    /// Proxy for this hub; `None` for a direct connection.
    #[must_use]
    pub fn http_proxy(&self, hub: &HubUrl) -> Option<HttpProxy> {
        let proxy = self.proxy_for(hub.host(), hub.port());
        proxy.map(|proxy| HttpProxy {
            url: proxy.to_string(),
            authorization: proxy.credentials.clone(),
        })
    }

    fn proxy_for(&self, host: &str, port: u16) -> Option<&Proxy> {
        let configured = self.0.as_ref()?;
        let direct = is_loopback(host) || configured.excepts(host, port);
        (!direct).then_some(&configured.proxy)
    }

    /// Connects to the hub, or through the proxy, with TCP_NODELAY. Each step has the deadline.
    /// Fails for a proxy with TLS ([`ProxyRules::needs_proxy_tls`]).
    ///
    /// # Errors
    ///
    /// With stage dns, tcp or proxy.
    pub async fn connect(&self, hub: &HubUrl, deadline: Duration) -> Result<Connected, DialError> {
        let context = PathContext {
            proxy_tls: None,
            trace: &DialTrace::default(),
        };
        self.connect_with(hub, deadline, context).await
    }

    /// As [`ProxyRules::connect`]; `proxy_tls` is the TLS towards a proxy with TLS.
    ///
    /// # Errors
    ///
    /// With stage dns, tcp or proxy.
    pub async fn connect_by(
        &self,
        hub: &HubUrl,
        deadline: Duration,
        proxy_tls: &Arc<ClientConfig>,
    ) -> Result<Connected, DialError> {
        let context = PathContext {
            proxy_tls: Some(proxy_tls),
            trace: &DialTrace::default(),
        };
        self.connect_with(hub, deadline, context).await
    }

    /// As [`ProxyRules::connect`], also through a proxy with TLS.
    pub(super) async fn connect_with(
        &self,
        hub: &HubUrl,
        deadline: Duration,
        context: PathContext<'_>,
    ) -> Result<Connected, DialError> {
        let trace = context.trace;
        let Some(proxy) = self.proxy_for(hub.host(), hub.port()) else {
            let (tcp, address) = tcp::connect(hub.host(), hub.port(), deadline, trace).await?;
            return Ok(Connected {
                stream: PathStream::Tcp(tcp),
                address,
            });
        };
        let (switched, address) = proxy.connect(&hub.authority(), deadline, context).await?;
        if !switched.read.is_empty() {
            let cause = format!("{proxy} spoke before the hub could");
            return Err(DialError::new(DialStage::Proxy, Code::DialProxy, cause).at(address));
        }
        let via = boxes(&switched.headers).map_or(String::new(), |via| format!(", via {via}"));
        trace.pass(DialStage::Proxy, format_args!("CONNECT at {proxy}{via}"));
        Ok(Connected {
            stream: switched.io,
            address,
        })
    }

    /// Whether the path to this hub begins with the TLS of a proxy.
    #[must_use]
    pub fn needs_proxy_tls(&self, hub: &HubUrl) -> bool {
        let proxy = self.proxy_for(hub.host(), hub.port());
        proxy.is_some_and(|proxy| proxy.tls)
    }

    /// Connects through the proxy to an address that is no hub; `None` if the rules demand a direct connection. The
    /// proxy resolves a name. Fails for a proxy with TLS.
    ///
    /// # Errors
    ///
    /// With stage dns, tcp or proxy, of the proxy.
    pub async fn tunnel(
        &self,
        host: &str,
        port: u16,
        deadline: Duration,
    ) -> Option<Result<Tunnel, DialError>> {
        let proxy = self.proxy_for(host, port)?;
        let context = PathContext {
            proxy_tls: None,
            trace: &DialTrace::default(),
        };
        let target = authority(host, port);
        let connected = proxy.connect(&target, deadline, context).await;
        Some(connected.and_then(|(switched, _)| match switched.io {
            PathStream::Tcp(tcp) => Ok(Tunnel {
                tcp,
                received: switched.read,
                proxy: proxy.to_string(),
            }),
            PathStream::Tls(_) => Err(proxy.no_trust()),
        }))
    }
}

impl ConfiguredProxy {
    fn excepts(&self, host: &str, port: u16) -> bool {
        let authority = authority(host.trim_end_matches('.'), port);
        let uri = Uri::builder()
            .scheme("https")
            .authority(authority)
            .path_and_query("/")
            .build();
        uri.is_ok_and(|uri| self.exceptions.intercept(&uri).is_none())
    }
}

impl Proxy {
    /// Error for a failed TCP connection to the proxy itself.
    fn unreachable(&self, error: DialError) -> DialError {
        let cause = format!(
            "{self}, from HTTPS_PROXY, cannot be reached: {}",
            error.cause
        );
        DialError {
            address: error.address,
            ..DialError::new(DialStage::Proxy, Code::DialProxy, cause).next(CHECK_PROXY)
        }
    }

    /// Connects to the proxy, and through it to the target.
    async fn connect(
        &self,
        target: &str,
        deadline: Duration,
        PathContext { proxy_tls, trace }: PathContext<'_>,
    ) -> Result<(Switched<PathStream>, SocketAddr), DialError> {
        let (tcp, address) = tcp::connect(&self.host, self.port, deadline, trace)
            .await
            .map_err(|error| self.unreachable(error))?;
        let tunnel = async {
            let stream = self.secure(tcp, proxy_tls).await?;
            self.tunnel(stream, target).await
        };
        let switched = step(DialStage::Proxy, deadline, tunnel).await;
        Ok((switched.map_err(|error| error.at(address))?, address))
    }

    /// Error for a proxy with TLS where nothing says which certificates are trusted.
    fn no_trust(&self) -> DialError {
        self.insecure("no certificates are trusted")
    }

    fn insecure(&self, cause: &str) -> DialError {
        let cause = format!("TLS with {self}, from HTTPS_PROXY, failed: {cause}");
        DialError::new(DialStage::Proxy, Code::DialProxy, cause).next(TRUST_PROXY)
    }

    /// TLS with the proxy itself, if its URL requires it.
    async fn secure(
        &self,
        tcp: TcpStream,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<PathStream, DialError> {
        if !self.tls {
            return Ok(PathStream::Tcp(tcp));
        }
        let tls = tls.ok_or_else(|| self.no_trust())?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| self.insecure(&error.to_string()))?;
        let connected = TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await;
        let stream = connected.map_err(|error| self.insecure(&outer_error(&error).cause))?;
        Ok(PathStream::Tls(Box::new(stream)))
    }

    /// CONNECT (RFC 9110, 9.3.6).
    async fn tunnel(
        &self,
        stream: PathStream,
        target: &str,
    ) -> Result<Switched<PathStream>, DialError> {
        let wrong = |cause: String| DialError::new(DialStage::Proxy, Code::DialProxy, cause);
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(target)
            .header(header::HOST, target)
            .header(
                header::USER_AGENT,
                concat!("fairlead/", env!("CARGO_PKG_VERSION")),
            );
        if let Some(credentials) = &self.credentials {
            let mut value = HeaderValue::from_str(credentials.expose_secret())
                .map_err(|error| wrong(error.to_string()))?;
            value.set_sensitive(true);
            request = request.header(header::PROXY_AUTHORIZATION, value);
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|error| wrong(error.to_string()))?;
        match switch(stream, request, StatusCode::OK).await {
            Ok(switched) => Ok(switched),
            Err(NotSwitched::Refused {
                status,
                headers,
                cause,
                evidence,
            }) => {
                let colon = if cause.is_empty() { "" } else { ": " };
                let cause = format!("{self} answered {status}{colon}{cause}");
                let error = match status {
                    StatusCode::PROXY_AUTHENTICATION_REQUIRED => wants_credentials(cause, &headers),
                    _ => wrong(cause),
                };
                Err(error.refused_with(evidence))
            }
            Err(NotSwitched::Broken(error)) => {
                Err(wrong(format!("{self} broke: {}", error_chain(&error))))
            }
        }
    }
}

fn proxy(text: &str) -> Result<Proxy, String> {
    let (tls, rest) = match text.split_once("://") {
        None => (false, text),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        Some((scheme, _)) => {
            return Err(format!(
                "HTTPS_PROXY: a proxy of kind {scheme}:// is not supported, only http:// and https://"
            ));
        }
    };
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    let bad = || "HTTPS_PROXY: not of the form http://[user:password@]host[:port]".to_owned();
    let (host, port) = match place.strip_prefix('[') {
        Some(v6) => {
            let (host, port) = v6.split_once(']').ok_or_else(bad)?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(bad());
    }
    let port = match port {
        "" if tls => 443,
        "" => 1080,
        port => port.parse().map_err(|_| bad())?,
    };
    let credentials = match user {
        Some(user) => Some(basic(user).ok_or_else(bad)?),
        None => None,
    };
    Ok(Proxy {
        host: host.to_owned(),
        port,
        tls,
        credentials,
    })
}

/// Basic credentials (RFC 7617). User and password are percent-encoded in the URL; the password may
/// be missing.
fn basic(user: &str) -> Option<SecretString> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let mut pair = percent::decode(name)?;
    pair.push(b':');
    pair.extend(percent::decode(password)?);
    Some(format!("Basic {}", STANDARD.encode(pair)).into())
}

/// NO_PROXY in the form of hyper-util, which knows neither blanks between entries, nor brackets around IPv6 addresses,
/// nor the final dot of a name, nor `*` for addresses.
fn normalized(no_proxy: &str) -> String {
    let entries = no_proxy.split([',', ' ', '\t']).map(|entry| match entry {
        "*" => "*,0.0.0.0/0,::/0".to_owned(),
        entry => entry
            .replace(['[', ']'], "")
            .trim_end_matches('.')
            .to_owned(),
    });
    entries.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
