//! HTTP clients for one host, with TLS and proxy of the caller.

use std::time::Duration;

use fairlead_api::{Code, Failure, HubUrl};
use fairlead_dialer::ProxyRules;
use http::{HeaderValue, Method};
use reqwest::{Client, ClientBuilder, Proxy, retry};
use secrecy::ExposeSecret;

use crate::proxy_tunnel::ProxyTunnel;

/// Time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Builder of a client for one host, with TLS and proxy. The tunnel must live as long as the client.
pub(crate) fn client_builder(
    url: &HubUrl,
    ca: Option<&str>,
    rules: &ProxyRules,
) -> Result<(ClientBuilder, Option<ProxyTunnel>), Failure> {
    let internal = |error: &dyn std::fmt::Display| Failure::because(Code::Internal, error);
    let tls = fairlead_certs::outer_client(ca, None)?;
    let host = match url.host() {
        v6 if v6.contains(':') => format!("[{v6}]"),
        host => host.to_owned(),
    };
    let is_v6 = url.host().contains(':');
    let mut client = Client::builder()
        .tls_backend_preconfigured((*tls).clone())
        .user_agent(concat!("fairlead/", env!("CARGO_PKG_VERSION")))
        .retry(retry_policy(host))
        .pool_idle_timeout(IDLE_TIMEOUT)
        .no_proxy();
    if is_v6 && rules.http_proxy(url).is_some() {
        let tunnel = ProxyTunnel::open(url, rules, &tls)?;
        return Ok((client.unix_socket(tunnel.socket()), Some(tunnel)));
    }
    if let Some(address) = rules.http_proxy(url) {
        let mut proxy = Proxy::https(&address.url).map_err(|error| internal(&error))?;
        if let Some(authorization) = &address.authorization {
            let value = HeaderValue::from_str(authorization.expose_secret());
            let mut value = value.map_err(|error| internal(&error))?;
            value.set_sensitive(true);
            proxy = proxy.custom_http_auth(value);
        }
        client = client.proxy(proxy);
    }
    Ok((client, None))
}

/// Repeats a GET whose connection broke: the hub may have closed an idle connection at that moment.
fn retry_policy(host: String) -> retry::Builder {
    let policy = retry::for_host(host).no_budget();
    policy.max_retries_per_request(1).classify_fn(|exchange| {
        let error = exchange.error().and_then(|it| it.downcast_ref());
        let broke = error.is_some_and(|error: &reqwest::Error| !error.is_connect());
        if broke && exchange.method() == Method::GET {
            exchange.retryable()
        } else {
            exchange.success()
        }
    })
}
