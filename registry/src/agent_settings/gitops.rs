//! Checks of the settings of GitOps tools, as far as they need no other setting.

use fairlead_api::gitops::{CommitVerification, GitOpsSettings, ToolInstallation, ToolProxy};

/// Length of a SHA-256 hash in base64 without padding.
const FINGERPRINT_CHARS: usize = 43;
/// Limit of each text, in bytes.
const MAX_TEXT_BYTES: usize = 512;
/// Limit of certificates and of each key, in bytes: they are part of documents that are kept in memory.
const MAX_PEM_BYTES: usize = 64 * 1024;

/// Returns the first problem.
pub(super) fn problem(settings: &GitOpsSettings) -> Option<&'static str> {
    let confirmed = settings.confirmed_key.as_deref();
    if confirmed.is_some_and(|key| !is_fingerprint(key)) {
        return Some(
            "gitops.confirmedKey: a fingerprint, like `ssh-keygen -l` prints it: SHA256: and 43 characters",
        );
    }
    let installation = settings.installation.as_ref().and_then(of_installation);
    installation.or_else(|| settings.verify.as_ref().and_then(of_keys))
}

fn of_installation(installation: &ToolInstallation) -> Option<&'static str> {
    let ToolInstallation {
        version,
        sha256,
        registry,
        branch,
        path,
        proxy,
        ca,
        git_service: _,
    } = installation;
    let fails = |text: &Option<String>, check: fn(&str) -> bool| {
        text.as_deref().is_some_and(|text| !check(text))
    };
    if fails(version, is_version) {
        return Some("gitops.installation.version: three numbers with dots, like 2.9.5");
    }
    if fails(sha256, is_hash) || sha256.is_some() && version.is_none() {
        return Some(
            "gitops.installation.sha256: 64 hexadecimal digits in lower case, beside a version",
        );
    }
    if fails(registry, is_registry) {
        return Some(
            "gitops.installation.registry: a host with an optional port and path, without scheme",
        );
    }
    if fails(branch, is_plain) || fails(path, is_folder) {
        return Some(
            "gitops.installation: branch and path are names without spaces, and the path has no `..`",
        );
    }
    if fails(ca, |text| {
        text.len() <= MAX_PEM_BYTES && text.contains("-----BEGIN CERTIFICATE-----")
    }) {
        return Some("gitops.installation.ca: certificates in PEM, at most 64 KiB");
    }
    proxy.as_ref().and_then(of_proxy)
}

fn of_proxy(proxy: &ToolProxy) -> Option<&'static str> {
    let url = proxy.url.as_deref();
    let is_url = |url: &str| {
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        rest.is_some_and(|rest| is_plain(rest) && !rest.contains('@'))
    };
    if url.is_some_and(|url| !is_url(url)) {
        return Some(
            "gitops.installation.proxy.url: http:// or https://, a host and a port, without credentials; for those name a Secret of the site in `secret`",
        );
    }
    let is_name = |it: &&str| !it.is_empty() && it.bytes().all(is_label_byte);
    let secret = proxy.secret.as_deref();
    if secret.is_some_and(|secret| secret.len() > 253 || !is_name(&secret)) {
        return Some("gitops.installation.proxy.secret: the name of a Secret");
    }
    let no_proxy = proxy.no_proxy.as_deref();
    no_proxy
        .is_some_and(|hosts| !is_plain(hosts))
        .then_some("gitops.installation.proxy.noProxy: hosts and networks, separated by commas")
}

fn of_keys(verify: &CommitVerification) -> Option<&'static str> {
    let is_large = verify.keys.values().any(|key| key.len() > MAX_PEM_BYTES);
    is_large.then_some("gitops.verify.keys: at most 64 KiB each")
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number =
        |it: &&str| (1..=6).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_registry(text: &str) -> bool {
    is_plain(text) && !text.contains("://") && !text.contains(['@', ' '])
}

fn is_plain(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic())
}

fn is_folder(text: &str) -> bool {
    is_plain(text) && !text.split('/').any(|it| it == "..")
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-')
}

/// True for the form of OpenSSH: `SHA256:` and base64 without padding.
fn is_fingerprint(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.strip_prefix("SHA256:")
        .is_some_and(|hash| hash.len() == FINGERPRINT_CHARS && hash.bytes().all(is_base64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut ToolInstallation)) -> Option<&'static str> {
        let mut installation = ToolInstallation::default();
        change(&mut installation);
        problem(&GitOpsSettings {
            installation: Some(installation),
            ..GitOpsSettings::default()
        })
    }

    fn with_proxy(proxy: ToolProxy) -> bool {
        with(|it| it.proxy = Some(proxy)).is_none()
    }

    #[test]
    fn invalid_installations_are_refused() {
        assert_eq!(with(|_| {}), None);
        for version in ["2", "2.9", "v2.9.5", "2.9.5-rc1", "2..5"] {
            assert!(with(|it| it.version = Some(version.to_owned())).is_some());
        }
        assert!(
            with(|it| it.sha256 = Some("a".repeat(64))).is_some(),
            "without version"
        );
        for registry in ["https://mirror.example", "user@mirror.example", ""] {
            assert!(with(|it| it.registry = Some(registry.to_owned())).is_some());
        }
        assert!(with(|it| it.path = Some("a/../b".to_owned())).is_some());
        assert!(with(|it| it.ca = Some("KEY".to_owned())).is_some());
    }

    #[test]
    fn credentials_of_a_proxy_are_refused() {
        let of_url = |url: &str| {
            with_proxy(ToolProxy {
                url: Some(url.to_owned()),
                ..ToolProxy::default()
            })
        };
        assert!(of_url("http://proxy.example:3128"));
        assert!(!of_url("http://user:password@proxy.example:3128"));
        assert!(!of_url("socks5://proxy.example:1080"));
        assert!(!with_proxy(ToolProxy {
            secret: Some("a/b".to_owned()),
            ..ToolProxy::default()
        }));
    }
}
