//! Addresses of Git servers: parsed, compared, and those of a cluster's own repositories.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use fairlead_registry::{Effective, template_of};
use fairlead_store::{View, model::Cluster};

const SSH_PORT: u16 = 22;
const HTTPS_PORT: u16 = 443;

/// Host and port of a Git server. Names are in lower case; IPv6 addresses have no brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitAddress {
    host: String,
    port: u16,
}

/// Error of parsing a [`GitAddress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT")]
pub struct GitAddressError;

impl GitAddress {
    /// Name or address of the server.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    fn new(host: &str, port: u16) -> Option<Self> {
        let host = host
            .strip_prefix('[')
            .and_then(|it| it.strip_suffix(']'))
            .unwrap_or(host);
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_name = host
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it));
        let is_valid =
            !host.is_empty() && host.len() <= 253 && (is_name || host.parse::<Ipv6Addr>().is_ok());
        (is_valid && port != 0).then_some(GitAddress { host, port })
    }

    /// Server of a repository's URL, in the forms that Git knows: `ssh://`, `https://` and `git@host:path`.
    fn of_url(url: &str) -> Option<Self> {
        let (rest, default) = match url.split_once("://") {
            Some(("ssh" | "git+ssh", rest)) => (rest, SSH_PORT),
            Some(("https", rest)) => (rest, HTTPS_PORT),
            Some(_) => return None,
            None => {
                let (host, _) = url.split_once(':')?;
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                return Self::new(host, SSH_PORT);
            }
        };
        let authority = rest.split('/').next()?;
        let authority = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
        match authority.parse() {
            Ok(address) => Some(address),
            Err(GitAddressError) => Self::new(authority, default),
        }
    }
}

impl fmt::Display for GitAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for GitAddress {
    type Err = GitAddressError;

    fn from_str(text: &str) -> Result<Self, GitAddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(GitAddressError)?;
        let is_bare_v6 = host.contains(':') && !host.starts_with('[');
        let port = port.parse().ok().filter(|_| !is_bare_v6);
        port.and_then(|port| Self::new(host, port))
            .ok_or(GitAddressError)
    }
}

/// Servers of the repositories of a cluster and of its tenant.
pub(super) fn of_cluster<'a>(
    view: &'a View,
    cluster: &'a Cluster,
) -> impl Iterator<Item = GitAddress> + 'a {
    let effective = Effective::of(cluster, template_of(view, &cluster.tenant));
    let tenant = view.tenant(&cluster.tenant).map(|it| &it.value);
    let of_state = |state: Option<&'a fairlead_store::model::RepoState>| state?.url.as_deref();
    let urls = [
        effective.repo_url(),
        of_state(cluster.repo_state.as_deref()),
        tenant.and_then(|it| it.git_repo.as_ref()?.url.as_deref()),
        of_state(tenant.and_then(|it| it.repo_state.as_deref())),
    ];
    urls.into_iter().flatten().filter_map(GitAddress::of_url)
}

/// True for an address of the public Internet, by the registries of special addresses (RFC 6890).
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    // Shared addresses of carriers (RFC 6598), protocol assignments, benchmarks, and reserved ones.
    let is_special = (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a == 0
        || a >= 240;
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast()
        || is_special)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    // Global unicast is 2000::/3; in it are documentation, 6to4, Teredo, and the prefixes that embed IPv4 addresses.
    let is_global = first & 0xe000 == 0x2000;
    let is_special = first == 0x2002 || (first == 0x2001 && (second < 0x200 || second == 0xdb8));
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Option<String> {
        GitAddress::of_url(url).map(|it| it.to_string())
    }

    #[test]
    fn server_of_a_url_is_found_in_each_form() {
        for (url, address) in [
            ("ssh://git@Git.example/a/b.git", "git.example:22"),
            ("ssh://git@git.example:2222/a.git", "git.example:2222"),
            ("git@git.example:a/b.git", "git.example:22"),
            ("https://git.example/a.git", "git.example:443"),
            ("https://user@git.example:8443/a.git", "git.example:8443"),
            ("ssh://git@[2001:db8::1]:22/a.git", "[2001:db8::1]:22"),
        ] {
            assert_eq!(of(url).as_deref(), Some(address), "{url}");
        }
        for url in ["file:///srv/a.git", "http://git.example/a.git", "a.git", ""] {
            assert_eq!(of(url), None, "{url}");
        }
    }

    #[test]
    fn address_has_a_host_and_a_port() {
        for bad in [
            "git.example",
            ":22",
            "git.example:0",
            "git.example:x",
            "2001:db8::1:22",
            "a b:1",
            "a/b:1",
        ] {
            assert!(bad.parse::<GitAddress>().is_err(), "{bad}");
        }
        let one: GitAddress = "GIT.example.:22".parse().unwrap();
        assert_eq!(one, "git.example:22".parse().unwrap());
    }

    #[test]
    fn private_addresses_are_no_public_ones() {
        for public in ["1.1.1.1", "140.82.121.4", "2606:4700::1111"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }
}
