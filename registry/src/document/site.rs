//! Checks of network settings of sites (`site`).

use fairlead_api::{
    Code, HubUrl,
    resources::{DIRECT, MAX_SITE_HUBS, SiteProxy, SiteSettings},
};
use fairlead_certs::check_authorities;
use fairlead_routes::InvalidValue;

use crate::document::fields::Fields;

/// Limit of the authorities, in bytes: they are part of documents that are kept in memory.
const MAX_CA_BYTES: usize = 64 * 1024;
/// Limit of the exceptions from a proxy, in bytes.
const MAX_NO_PROXY_BYTES: usize = 4096;
/// Limit of an address in a join string, in bytes.
const MAX_HUB_BYTES: usize = 255;
/// Limit of the name of a Secret (RFC 1123, subdomain), in bytes.
const MAX_SECRET_BYTES: usize = 253;
/// Limit of a host name, in bytes.
const MAX_HOST_BYTES: usize = 253;

/// Reads network settings in the field `name`. Settings without any value are none.
///
/// # Errors
/// `FL-4170` with the field; never with a password.
pub(super) fn of(given: &mut Fields, name: &str) -> Result<Option<SiteSettings>, InvalidValue> {
    let Some(given) = given.object(name)? else {
        return Ok(None);
    };
    let at = given.path().to_owned();
    let wrong = |cause: String| InvalidValue::with_code(Code::BadSite, format!("{at}{cause}"));
    let settings = serde_json::from_value(given.into_rest().into());
    let mut settings: SiteSettings = settings.map_err(|error| wrong(format!(": {error}")))?;
    settings.proxy = settings.proxy.filter(|it| !it.is_empty());
    check(&settings).map_err(|cause| wrong(format!(".{cause}")))?;
    Ok(Some(settings).filter(|it| !it.is_empty()))
}

fn check(settings: &SiteSettings) -> Result<(), String> {
    if let Some(proxy) = &settings.proxy {
        check_proxy(proxy)?;
    }
    if let Some(ca) = &settings.ca {
        if ca.len() > MAX_CA_BYTES {
            return Err(format!("ca: at most {MAX_CA_BYTES} bytes"));
        }
        check_authorities(ca).map_err(|error| format!("ca: {error}"))?;
    }
    let hubs = settings.hubs.as_deref().unwrap_or_default();
    if hubs.len() > MAX_SITE_HUBS {
        return Err(format!("hubs: at most {MAX_SITE_HUBS} addresses"));
    }
    let is_long = |hub: &&HubUrl| hub.to_string().len() > MAX_HUB_BYTES;
    match hubs.iter().find(is_long) {
        Some(_) => Err(format!("hubs: at most {MAX_HUB_BYTES} bytes for each")),
        None => Ok(()),
    }
}

fn check_proxy(proxy: &SiteProxy) -> Result<(), String> {
    let url = proxy.url.as_deref();
    if let Some(url) = url.filter(|url| *url != DIRECT) {
        if url.contains('@') {
            let cause = "proxy.url: no credentials; write the URL with them into a Secret of the site, and name it in proxy.secret";
            return Err(cause.to_owned());
        }
        if !is_proxy(url) {
            return Err(format!(
                "proxy.url: http:// or https:// with host and port, or {DIRECT}"
            ));
        }
    }
    if url == Some(DIRECT) && proxy.secret.is_some() {
        return Err(format!("proxy.secret: not beside the URL {DIRECT}"));
    }
    if proxy.secret.as_deref().is_some_and(|it| !is_secret(it)) {
        return Err("proxy.secret: the name of a Secret".to_owned());
    }
    let exceptions = proxy.no_proxy.as_deref();
    if exceptions.is_some_and(|it| !is_no_proxy(it)) {
        let cause =
            "proxy.noProxy: names, addresses and networks, separated by commas, at most 4096 bytes";
        return Err(cause.to_owned());
    }
    Ok(())
}

/// True for `http://host:port`, without a path. A port is needed, because programs have different defaults.
fn is_proxy(url: &str) -> bool {
    let schemes = ["http://", "https://"];
    let Some(rest) = schemes.iter().find_map(|it| url.strip_prefix(it)) else {
        return false;
    };
    let Some((host, port)) = rest.rsplit_once(':') else {
        return false;
    };
    let has_port = port.bytes().all(|it| it.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0);
    let v6 = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_host = match v6 {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            (1..=MAX_HOST_BYTES).contains(&host.len())
                && (host.bytes()).all(|it| it.is_ascii_alphanumeric() || b".-_".contains(&it))
        }
    };
    has_port && is_host
}

fn is_secret(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(plain)
    };
    name.len() <= MAX_SECRET_BYTES && name.split('.').all(is_label)
}

fn is_no_proxy(list: &str) -> bool {
    let is_entry = |entry: &str| {
        let plain = |it: u8| it.is_ascii_alphanumeric() || b".-_:/*[]".contains(&it);
        !entry.is_empty() && !entry.contains("//") && entry.bytes().all(plain)
    };
    list.len() <= MAX_NO_PROXY_BYTES && list.split(',').all(is_entry)
}

#[cfg(test)]
mod tests {
    use fairlead_certs::Authority;
    use serde_json::{Value, json};

    use super::*;

    fn given(value: Value) -> Result<Option<SiteSettings>, InvalidValue> {
        of(&mut Fields::of(json!({ "site": value })).unwrap(), "site")
    }

    #[test]
    fn complete_settings_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(folder.path()).unwrap();
        let authority = authority.certificate_pem();
        let value = json!({
            "proxy": { "url": "http://[fd00::1]:3128", "noProxy": "10.0.0.0/8,.svc,[::1],*.example" },
            "ca": authority,
            "hubs": ["https://two.example:8443"],
        });
        let settings = given(value.clone()).unwrap().unwrap();
        assert_eq!(json!(settings), value);
        assert_eq!(given(json!({})).unwrap(), None);
        assert_eq!(given(json!({ "proxy": {} })).unwrap(), None);
        let none = json!({ "proxy": { "url": "none" } });
        assert!(given(none).unwrap().is_some());
    }

    #[test]
    fn invalid_settings_are_refused_with_their_field() {
        let many: Vec<String> = (0..8).map(|it| format!("https://h{it}.example")).collect();
        for (value, field) in [
            (
                json!({ "proxy": { "url": "http://user:secret@proxy:3128" } }),
                "site.proxy.url: no credentials",
            ),
            (
                json!({ "proxy": { "url": "socks5://proxy:1080" } }),
                "site.proxy.url",
            ),
            (
                json!({ "proxy": { "url": "http://proxy" } }),
                "site.proxy.url",
            ),
            (
                json!({ "proxy": { "url": "http://proxy:0" } }),
                "site.proxy.url",
            ),
            (
                json!({ "proxy": { "url": "http://proxy:+1" } }),
                "site.proxy.url",
            ),
            (
                json!({ "proxy": { "url": "http://proxy:3128/x" } }),
                "site.proxy.url",
            ),
            (
                json!({ "proxy": { "url": "none", "secret": "x" } }),
                "site.proxy.secret",
            ),
            (json!({ "proxy": { "secret": "a/b" } }), "site.proxy.secret"),
            (
                json!({ "proxy": { "noProxy": "a,,b" } }),
                "site.proxy.noProxy",
            ),
            (
                json!({ "proxy": { "noProxy": "http://a" } }),
                "site.proxy.noProxy",
            ),
            (json!({ "proxy": { "password": "x" } }), "unknown field"),
            (json!({ "ca": "KEY" }), "site.ca"),
            (
                json!({ "ca": "x".repeat(MAX_CA_BYTES + 1) }),
                "site.ca: at most",
            ),
            (
                json!({ "hubs": ["http://hub"] }),
                "is not https://host[:port]",
            ),
            (json!({ "hubs": many }), "site.hubs: at most 7"),
        ] {
            let refused = given(value.clone()).unwrap_err();
            assert_eq!(refused.code(), Code::BadSite, "{value}");
            let text = refused.to_string();
            assert!(text.contains(field), "{value}: {text}");
            assert!(!text.contains("secret@"), "{text}");
        }
    }
}
