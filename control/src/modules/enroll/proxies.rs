//! Headers by which a trusted proxy reports the hub's external URL.

use http::{HeaderMap, header};

/// The hub's external URL according to a proxy. The gateway removes these headers from requests of all others.
pub(crate) fn external_url(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let scheme = text("x-forwarded-proto").filter(|it| matches!(*it, "http" | "https"))?;
    let host = text("x-forwarded-host").or_else(|| text(header::HOST.as_str()))?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
    let good = !host.is_empty() && host.len() <= 260 && host.bytes().all(plain);
    good.then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn external_url_has_a_plain_scheme_and_host() {
        let outside_url = |proto: &'static str, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
            headers.insert(header::HOST, HeaderValue::from_static(host));
            external_url(&headers)
        };
        let inside = outside_url("https", "syn.example:8443");
        assert_eq!(inside.as_deref(), Some("https://syn.example:8443"));
        assert_eq!(outside_url("javascript", "syn.example"), None);
        assert_eq!(outside_url("https", "syn.example/\"x"), None);
    }
}
