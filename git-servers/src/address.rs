//! Address of a repository on its server: group and name, and the forms of clone URLs.

use std::fmt;

use url::Url;

/// Group and name of a repository. A group may have subgroups, separated by slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoPath {
    pub(crate) group: String,
    pub(crate) name: String,
}

impl RepoPath {
    /// Parses `group/name`; `None` if a part cannot be a name on any server.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let (group, name) = path.rsplit_once('/')?;
        Self::new(group, name)
    }

    pub(crate) fn new(group: &str, name: &str) -> Option<Self> {
        let valid = group.split('/').chain([name]).all(is_name);
        valid.then(|| RepoPath {
            group: group.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The same repository in lower case: servers ignore case.
    pub(crate) fn lower_case(&self) -> RepoPath {
        RepoPath {
            group: self.group.to_ascii_lowercase(),
            name: self.name.to_ascii_lowercase(),
        }
    }

    /// True if both name the same repository: servers ignore case.
    pub(crate) fn is(&self, other: &RepoPath) -> bool {
        let text = self.to_string();
        text.eq_ignore_ascii_case(&other.to_string())
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.name)
    }
}

/// Letters that groups and repositories have on all servers. A path of dots would leave its folder.
fn is_name(part: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty()
        && part.len() <= 255
        && part != "."
        && part != ".."
        && part.chars().all(is_letter)
}

/// Host names of a server, and the form of its clone URLs.
#[derive(Debug, Clone)]
pub(crate) struct CloneAddress {
    /// Address of the server's web pages.
    pub(crate) web: Url,
    pub(crate) ssh_host: String,
    /// `None` is port 22.
    pub(crate) ssh_port: Option<u16>,
}

impl CloneAddress {
    /// Clone URL over SSH.
    pub(crate) fn url(&self, path: &RepoPath) -> String {
        let port = self.ssh_port.filter(|it| *it != 22);
        let port = port.map(|it| format!(":{it}")).unwrap_or_default();
        format!("ssh://git@{}{port}/{path}.git", self.ssh_host)
    }

    /// The repository of a clone URL, if it is on this server: `ssh://`, `user@host:path`, or the
    /// web address.
    pub(crate) fn path_of(&self, url: &str) -> Option<RepoPath> {
        let Some((scheme, _)) = url.split_once("://") else {
            return self.path_of_scp(url);
        };
        let parsed: Url = url.parse().ok()?;
        let host = parsed.host_str()?;
        match scheme.to_ascii_lowercase().as_str() {
            "ssh" | "git+ssh" => {
                let port = parsed.port().unwrap_or(22);
                let is_ours = self.is_ssh_host(host) && port == self.ssh_port.unwrap_or(22);
                is_ours.then(|| RepoPath::parse(parsed.path()))?
            }
            "https" | "http" => {
                if !host.eq_ignore_ascii_case(self.web.host_str()?)
                    || parsed.port_or_known_default() != self.web.port_or_known_default()
                {
                    return None;
                }
                let prefix = self.web.path().trim_end_matches('/');
                let rest = parsed.path().strip_prefix(prefix)?;
                rest.starts_with('/').then(|| RepoPath::parse(rest))?
            }
            _ => None,
        }
    }

    /// `git@host:group/name.git`, which cannot name a port.
    fn path_of_scp(&self, url: &str) -> Option<RepoPath> {
        let (login, path) = url.split_once(':')?;
        let host = login.rsplit_once('@').map_or(login, |(_, host)| host);
        let is_ours = self.is_ssh_host(host) && self.ssh_port.is_none_or(|port| port == 22);
        is_ours.then(|| RepoPath::parse(path))?
    }

    fn is_ssh_host(&self, host: &str) -> bool {
        host.eq_ignore_ascii_case(&self.ssh_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ssh_port: Option<u16>) -> CloneAddress {
        CloneAddress {
            web: "https://git.example/gitlab".parse().unwrap(),
            ssh_host: "ssh.git.example".to_owned(),
            ssh_port,
        }
    }

    #[test]
    fn all_forms_of_a_clone_url_name_the_repository() {
        let port = |url: &str, port| address(port).path_of(url).map(|it| it.to_string());
        for url in [
            "ssh://git@ssh.git.example/a/b/c.git",
            "ssh://git@ssh.git.example:22/a/b/c",
            "ssh://SSH.git.example/a/b/c.git/",
            "git@ssh.git.example:a/b/c.git",
            "ssh.git.example:/a/b/c.git",
            "https://git.example/gitlab/a/b/c.git",
            "https://git.example:443/gitlab/a/b/c",
        ] {
            assert_eq!(port(url, None).as_deref(), Some("a/b/c"), "{url}");
        }
        let other_port = "ssh://git@ssh.git.example:2222/a/c.git";
        assert_eq!(port(other_port, Some(2222)).as_deref(), Some("a/c"));
        for (url, ssh_port) in [
            (other_port, None),
            ("git@ssh.git.example:a/c.git", Some(2222)),
            ("https://git.example/a/c.git", None),
            ("https://git.example/gitlabs/a/c.git", None),
            ("https://ssh.git.example/gitlab/a/c.git", None),
            ("git@git.example:a/c.git", None),
            ("ssh://git@ssh.git.example/c.git", None),
            ("ssh://git@ssh.git.example/a/%2e%2e/c.git", None),
            ("file:///a/b", None),
        ] {
            assert_eq!(port(url, ssh_port), None, "{url}");
        }
    }

    #[test]
    fn clone_urls_are_read_back() {
        let path = RepoPath::parse("a/b").unwrap();
        for ssh_port in [None, Some(22), Some(2222)] {
            let url = address(ssh_port).url(&path);
            assert_eq!(address(ssh_port).path_of(&url), Some(path.clone()), "{url}");
        }
        assert_eq!(
            address(Some(22)).url(&path),
            "ssh://git@ssh.git.example/a/b.git"
        );
    }

    #[test]
    fn paths_cannot_leave_their_folder() {
        for bad in ["a/..", "../b", "a//b", "a/b?c", "a b/c", "a/b%2fc", "b"] {
            assert_eq!(RepoPath::parse(bad), None, "{bad}");
        }
    }
}
