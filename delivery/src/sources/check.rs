//! Checks of a source that a person writes.

use std::collections::BTreeSet;

use fairlead_api::delivery::GitSource;
use fairlead_routes::{InvalidValue, invalid};

use super::{access::is_credentials_name, remote::Reference};

const MAX_URL_BYTES: usize = 2048;
const MAX_PATHS: usize = 200;
const MAX_PATH_BYTES: usize = 1024;
/// Limit of host keys, and of allowed signers, in bytes.
const MAX_KEYS_BYTES: usize = 64 * 1024;

/// Way to a Git server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Https,
    Http,
    Ssh,
}

/// Host of a URL, for the number of polls at the same time.
pub(super) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Checks each field, and brings the paths into one form.
///
/// # Errors
/// `FL-4109` with the field.
pub(super) fn checked(git: GitSource) -> Result<GitSource, InvalidValue> {
    let transport =
        transport_of(&git.url).map_err(|cause| invalid(format_args!("git.url: {cause}")))?;
    let reference = git.reference.parse::<Reference>();
    reference.map_err(|error| invalid(format_args!("git.ref: {error}")))?;
    if let Some(credentials) = &git.credentials {
        if transport == Transport::Http {
            return Err(invalid(
                "git.credentials: use an https URL; http would send them in clear text",
            ));
        }
        if credentials.namespace.is_some() || !is_credentials_name(&credentials.name) {
            let cause = "git.credentials: expected the name of a file, of letters, digits, `.`, `-` and `_`, without namespace";
            return Err(invalid(cause));
        }
    }
    let host_keys = git.host_keys.as_deref();
    let host_keys =
        lines(host_keys).map_err(|cause| invalid(format_args!("git.hostKeys: {cause}")))?;
    if transport == Transport::Ssh && host_keys == 0 {
        return Err(invalid(
            "git.hostKeys: SSH needs the keys of the server, as `ssh-keyscan HOST` prints them",
        ));
    }
    let verify = lines(git.verify.as_deref());
    let signers = verify.map_err(|cause| invalid(format_args!("git.verify: {cause}")))?;
    if git.verify.is_some() && signers == 0 {
        return Err(invalid(
            "git.verify: expected at least one line of an allowed_signers file",
        ));
    }
    let paths = paths(&git.paths)?;
    Ok(GitSource { paths, ..git })
}

fn transport_of(url: &str) -> Result<Transport, &'static str> {
    let is_plain = |it: u8| it.is_ascii_graphic() && !b"\\\"'`<>{}|^".contains(&it);
    if url.len() > MAX_URL_BYTES || !url.bytes().all(is_plain) {
        return Err("expected a URL of printable ASCII characters");
    }
    let (transport, rest) = match url.split_once("://") {
        Some(("https", rest)) => (Transport::Https, rest),
        Some(("http", rest)) => (Transport::Http, rest),
        Some(("ssh", rest)) => (Transport::Ssh, rest),
        Some(_) => return Err("expected https://, ssh:// or user@host:path"),
        None => {
            let (login, path) = url
                .split_once(':')
                .ok_or("expected https://, ssh:// or user@host:path")?;
            let (user, host) = login
                .split_once('@')
                .ok_or("expected https://, ssh:// or user@host:path")?;
            let is_word = |it: &str| !it.is_empty() && !it.starts_with('-');
            let is_whole =
                is_word(user) && is_word(host) && is_word(path) && !path.starts_with(':');
            return is_whole
                .then_some(Transport::Ssh)
                .ok_or("expected user@host:path");
        }
    };
    let (authority, path) = rest
        .split_once('/')
        .ok_or("the path of the repository is missing")?;
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    if host.is_empty() || host.starts_with('-') || path.is_empty() {
        return Err("host or path of the repository is missing");
    }
    match (transport, login) {
        (Transport::Ssh, Some(user))
            if user.contains(':') || user.is_empty() || user.starts_with('-') =>
        {
            Err("a password belongs into a file of credentials, not into the URL")
        }
        (Transport::Https | Transport::Http, Some(_)) => {
            Err("user and token belong into a file of credentials, not into the URL")
        }
        _ => Ok(transport),
    }
}

/// Number of lines with content.
fn lines(text: Option<&str>) -> Result<usize, &'static str> {
    let text = text.unwrap_or_default();
    if text.len() > MAX_KEYS_BYTES {
        return Err("the text has more than 64 KiB");
    }
    if text
        .chars()
        .any(|it| it.is_control() && !matches!(it, '\n' | '\r' | '\t'))
    {
        return Err("control characters are not accepted");
    }
    let lines = text.lines().map(str::trim);
    Ok(lines
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
        .count())
}

fn paths(given: &[String]) -> Result<Vec<String>, InvalidValue> {
    if given.is_empty() || given.len() > MAX_PATHS {
        return Err(invalid(format_args!(
            "git.paths: expected 1 to {MAX_PATHS} folders"
        )));
    }
    let mut known = BTreeSet::new();
    let mut paths = Vec::with_capacity(given.len());
    for path in given {
        let path = path_of(path).ok_or_else(|| {
            invalid(format_args!(
                "git.paths: {path:?} is no folder inside of the repository"
            ))
        })?;
        if !known.insert(path.clone()) {
            return Err(invalid(format_args!("git.paths: {path:?} is there twice")));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Path without surplus parts; `.` is the whole repository.
fn path_of(path: &str) -> Option<String> {
    let is_plain = |it: char| !it.is_control() && !matches!(it, '\\' | ':');
    if path.is_empty()
        || path.len() > MAX_PATH_BYTES
        || path.starts_with('/')
        || !path.chars().all(is_plain)
    {
        return None;
    }
    let parts: Vec<&str> = path
        .split('/')
        .filter(|it| !matches!(*it, "" | "."))
        .collect();
    if parts
        .iter()
        .any(|it| *it == ".." || it.eq_ignore_ascii_case(".git"))
    {
        return None;
    }
    let joined = parts.join("/");
    Some(if joined.is_empty() {
        ".".to_owned()
    } else {
        joined
    })
}

#[cfg(test)]
mod tests {
    use fairlead_api::resources::Credentials;

    use super::*;

    fn source(url: &str) -> GitSource {
        GitSource {
            url: url.to_owned(),
            reference: "main".to_owned(),
            paths: vec!["apps/shop".to_owned()],
            credentials: None,
            host_keys: Some("git.test ssh-ed25519 AAAA".to_owned()),
            verify: None,
        }
    }

    #[test]
    fn urls_without_secrets_are_accepted() {
        for (url, host) in [
            ("https://git.test/a/b.git", "git.test"),
            ("https://git.test:8443/a", "git.test"),
            ("http://127.0.0.1:3000/a", "127.0.0.1"),
            ("ssh://git@git.test:2222/a", "git.test"),
            ("ssh://[::1]/a", "::1"),
            ("git@git.test:a/b.git", "git.test"),
        ] {
            checked(source(url)).unwrap();
            assert_eq!(host_of(url), host);
        }
        for url in [
            "",
            "git.test/a",
            "file:///etc",
            "ext::sh -c x",
            "https://git.test",
            "https:///a",
            "https://bot:token@git.test/a",
            "https://token@git.test/a",
            "ssh://git:pw@git.test/a",
            "ssh://-oProxyCommand=x/a",
            "-x@git.test:a",
            "git@-x:a",
            "git@git.test:-x",
            "https://git.test/a b",
            "git@git.test::x",
        ] {
            assert!(checked(source(url)).is_err(), "{url:?} must be refused");
        }
    }

    #[test]
    fn credentials_go_over_encrypted_ways_only() {
        let with = |url: &str, name: &str| GitSource {
            credentials: Some(Credentials {
                name: name.to_owned(),
                namespace: None,
            }),
            ..source(url)
        };
        checked(with("https://git.test/a", "bot")).unwrap();
        assert!(checked(with("http://git.test/a", "bot")).is_err());
        assert!(checked(with("https://git.test/a", "../bot")).is_err());
        let without_keys = GitSource {
            host_keys: None,
            ..source("git@git.test:a")
        };
        assert!(checked(without_keys).is_err(), "SSH needs host keys");
        let empty = GitSource {
            verify: Some("# none\n".to_owned()),
            ..source("https://git.test/a")
        };
        assert!(checked(empty).is_err(), "no signer is allowed");
    }

    #[test]
    fn paths_have_one_form() {
        let paths = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|it| (*it).to_owned()).collect();
            super::paths(&given)
        };
        assert_eq!(paths(&["./a//b/", "c"]).unwrap(), ["a/b", "c"]);
        assert_eq!(paths(&["."]).unwrap(), ["."]);
        for bad in [
            "", "/a", "../a", "a/../b", "a\\b", ".git", "a/.GIT/x", "a\nb", ":a",
        ] {
            assert!(paths(&[bad]).is_err(), "{bad:?} must be refused");
        }
        assert!(paths(&["a", "./a"]).is_err(), "a folder is there twice");
        assert!(paths(&[]).is_err());
    }
}
