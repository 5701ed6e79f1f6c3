//! Lines of `known_hosts` of one repository's hosts, within a text with lines of others (sshd(8), SSH_KNOWN_HOSTS FILE
//! FORMAT).

use std::collections::BTreeSet;

/// Lines without comments and empty ones, each with a line feed.
pub(crate) fn lines(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Names of the hosts in these lines.
fn names(text: &str) -> BTreeSet<&str> {
    let fields = text.lines().filter_map(hosts_of);
    fields.flat_map(|hosts| hosts.split(',')).collect()
}

/// Field with the hosts of a line: the first one, or the second one behind a marker.
fn hosts_of(line: &str) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let first = fields.next().filter(|first| !first.starts_with('#'))?;
    match first.starts_with('@') {
        true => fields.next(),
        false => Some(first),
    }
}

/// Lines of `all` with a host of `desired`, or with `host`.
pub(crate) fn own(all: &str, desired: &str, host: &str) -> String {
    let mut names = names(desired);
    names.insert(host);
    let is_own = |line: &&str| hosts_of(line).is_some_and(|it| has_any(it, &names));
    lines(&all.lines().filter(is_own).collect::<Vec<_>>().join("\n"))
}

fn has_any(hosts: &str, names: &BTreeSet<&str>) -> bool {
    hosts.split(',').any(|name| names.contains(name))
}

/// `all` with the lines of `desired` in place of those of the same hosts. Other hosts of a line keep it.
pub(crate) fn replaced(all: &str, desired: &str, host: &str) -> String {
    let mut names = names(desired);
    names.insert(host);
    let mut text = String::new();
    for line in all.lines() {
        let hosts = hosts_of(line).filter(|hosts| has_any(hosts, &names));
        let Some(hosts) = hosts else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let others = hosts.split(',').filter(|name| !names.contains(name));
        let others: Vec<&str> = others.collect();
        if !others.is_empty() {
            text.push_str(&line.replacen(hosts, &others.join(","), 1));
            text.push('\n');
        }
    }
    text + desired
}

/// Host of a URL `ssh://[USER@]HOST[:PORT]/...`, as `known_hosts` names it.
pub(crate) fn of_url(url: &str) -> String {
    let rest = url.strip_prefix("ssh://").unwrap_or(url);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((host, "22")) => host.to_owned(),
        Some((host, port)) if !host.is_empty() && port.bytes().all(|it| it.is_ascii_digit()) => {
            format!("[{host}]:{port}")
        }
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "# of the tool\ngithub.com ssh-rsa A\ngit.example,other.example ssh-rsa B\n@revoked git.example ssh-rsa C\n";

    #[test]
    fn lines_of_a_host_are_replaced_and_others_stay() {
        let desired = lines("\n# of the registry\ngit.example ssh-ed25519 D\n");
        assert_eq!(desired, "git.example ssh-ed25519 D\n");
        let after = replaced(ALL, &desired, "git.example");
        assert_eq!(
            after,
            "# of the tool\ngithub.com ssh-rsa A\nother.example ssh-rsa B\ngit.example ssh-ed25519 D\n"
        );
        assert_eq!(own(&after, &desired, "git.example"), desired);
        assert_eq!(
            replaced(&after, &desired, "git.example"),
            after,
            "it settles"
        );
    }

    #[test]
    fn host_without_desired_keys_loses_its_lines() {
        let after = replaced(ALL, "", "git.example");
        assert_eq!(own(&after, "", "git.example"), "");
        assert!(after.contains("github.com"), "{after}");
    }

    #[test]
    fn host_of_a_url_has_its_port_in_brackets() {
        for (url, host) in [
            ("ssh://git@git.example/a/b.git", "git.example"),
            ("ssh://git@git.example:22/a/b.git", "git.example"),
            ("ssh://git@git.example:2222/a/b.git", "[git.example]:2222"),
            ("ssh://git.example", "git.example"),
        ] {
            assert_eq!(of_url(url), host, "{url}");
        }
    }
}
