//! Filters headers towards the API server and back. Headers that authenticate, impersonate or belong to one hop
//! never pass; the agent sets its own.

use std::time::Duration;

use fairlead_api::{
    Code, Failure,
    headers::{self as ours, AGENT_CODE, PREFIX, is_hop_by_hop},
};
use fairlead_exchange::{LineSet, Lines, NameBuffer};
use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{CONNECTION, CONTENT_TYPE, TE, UPGRADE},
};

use super::admit::Impersonation;

/// Parsed once.
static TE_NAME: HeaderName = TE;
static CONNECTION_NAME: HeaderName = CONNECTION;
static UPGRADE_NAME: HeaderName = UPGRADE;
static IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
static IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");
static AUDIT_ID: HeaderName = HeaderName::from_static(ours::AUDIT_ID);
static UPSTREAM_MICROS: HeaderName = HeaderName::from_static(ours::UPSTREAM_MICROS);

/// Values of headers that the agent sets.
static TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
static UPGRADES: HeaderValue = HeaderValue::from_static("Upgrade");

/// Prefixes of headers that assert an identity.
const IDENTITY_PREFIXES: [&str; 4] = [PREFIX, "impersonate-", "x-remote-", "authorization"];

/// Protocol of an upgrade request.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_upgrade = members(headers, &CONNECTION).any(|name| name.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| is_upgrade).cloned()
}

/// Headers of a request from the hub on its way to the API server, except for credential and host.
pub(crate) struct TowardsApi {
    /// Names that `Connection` lists, in lower case.
    listed: Vec<String>,
    trailers: bool,
    upgrade: Option<HeaderValue>,
    permitted: Impersonation,
}

impl TowardsApi {
    pub(crate) fn of(
        headers: &HeaderMap,
        upgrade: Option<HeaderValue>,
        permitted: Impersonation,
    ) -> Self {
        TowardsApi {
            listed: listed(headers),
            trailers: members(headers, &TE).any(|coding| coding.eq_ignore_ascii_case("trailers")),
            upgrade,
            permitted,
        }
    }

    /// Protocol of an upgrade.
    pub(crate) fn upgrade(&self) -> Option<&HeaderValue> {
        self.upgrade.as_ref()
    }

    /// Whether a header of the hub's request passes.
    pub(crate) fn keeps(&self, name: &HeaderName) -> bool {
        let name = name.as_str();
        !(is_of_one_hop(name, &self.listed) || is_dropped(name))
    }

    /// Headers of the agent.
    pub(crate) fn added(&self) -> Vec<(&HeaderName, &HeaderValue)> {
        let mut added = Vec::with_capacity(8);
        if self.trailers {
            added.push((&TE_NAME, &TRAILERS));
        }
        if let Some(protocol) = &self.upgrade {
            added.push((&CONNECTION_NAME, &UPGRADES));
            added.push((&UPGRADE_NAME, protocol));
        }
        added.push((&IMPERSONATE_USER, self.permitted.user()));
        let groups = self.permitted.groups().iter();
        added.extend(groups.map(|group| (&IMPERSONATE_GROUP, group)));
        added
    }
}

/// Whether no header of this name passes from the hub to the API server. `name` is in lower case.
pub(crate) fn is_dropped(name: &str) -> bool {
    is_hop_by_hop(name)
        || IDENTITY_PREFIXES.iter().any(|it| name.starts_with(it))
        || name == "cookie"
}

/// Whether a line of `TE` lists `trailers`. A line that is not ASCII lists nothing.
pub(crate) fn takes_trailers(line: &[u8]) -> bool {
    let mut codings = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    line.is_ascii() && codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// Turns headers of the API server's answer into headers for the hub.
pub(crate) fn towards_hub(
    headers: &mut HeaderMap,
    upgrade: Option<&HeaderValue>,
    took: Option<Duration>,
) {
    let protocol = headers.get(UPGRADE).cloned();
    strip(headers, |name| name.starts_with(PREFIX));
    // Protocol chosen by the API server from the requested ones.
    put_upgrade(headers, upgrade.and(protocol.as_ref()));
    if let Some(took) = took {
        headers.insert(&UPSTREAM_MICROS, HeaderValue::from(micros(took)));
    }
}

/// Fields in lines of the API server's answer that pass to the hub, as [`towards_hub`].
pub(crate) fn kept_for_hub(lines: &Lines) -> LineSet {
    let mut kept = LineSet::default();
    let mut buffer = NameBuffer::default();
    for line in lines.iter() {
        let name = line.lower_name(&mut buffer);
        if !is_hop_by_hop(name) && !name.starts_with(PREFIX) {
            kept.insert(line.index);
        }
    }
    kept
}

pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// Marks an answer of the agent itself.
pub(crate) fn mark_as_agents(headers: &mut HeaderMap, code: Code) {
    if let Ok(code) = HeaderValue::try_from(code.to_string()) {
        headers.insert(AGENT_CODE, code);
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
}

/// Request id for the log; an invalid one is not repeated.
pub(crate) fn request_id(headers: &HeaderMap) -> &str {
    printable_id(headers.get(&AUDIT_ID).map(HeaderValue::as_bytes))
}

/// Request id of a head in lines, as [`request_id`].
pub(crate) fn request_id_of_lines(lines: &Lines) -> &str {
    let mut lines = lines.iter();
    let id = lines.find(|line| line.name.eq_ignore_ascii_case(ours::AUDIT_ID));
    printable_id(id.map(|line| line.value))
}

fn printable_id(id: Option<&[u8]>) -> &str {
    let Some(id) = id else {
        return "";
    };
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
    let is_sane = id.len() <= 64 && id.iter().all(sane);
    let id = std::str::from_utf8(id).ok().filter(|_| is_sane);
    id.unwrap_or("?")
}

/// Whether a program behind the API server answers: `.../pods/p/proxy/...`, also of services and nodes.
pub(crate) fn is_proxied(uri: &Uri) -> bool {
    uri.path().split('/').any(|segment| segment == "proxy")
}

/// Rejects paths that lead out of the API server's base path.
///
/// # Errors
///
/// `FL-1303`.
pub(crate) fn check_path(uri: &Uri) -> Result<(), Failure> {
    let path = uri.path();
    // Mostly there is no dot, and no segment to look at.
    let has_dots = ['.', '%'].iter().any(|&it| path.contains(it));
    let is_dots = |mut segment: &str| {
        let mut dots = 0;
        while let Some(rest) = [".", "%2e", "%2E"]
            .iter()
            .find_map(|dot| segment.strip_prefix(dot))
        {
            (segment, dots) = (rest, dots + 1);
        }
        segment.is_empty() && (1..=2).contains(&dots)
    };
    if !path.starts_with('/') || (has_dots && path.split('/').any(is_dots)) {
        return Err(Failure::new(Code::BadPath));
    }
    Ok(())
}

fn put_upgrade(headers: &mut HeaderMap, protocol: Option<&HeaderValue>) {
    if let Some(protocol) = protocol {
        headers.insert(CONNECTION, UPGRADES.clone());
        headers.insert(UPGRADE, protocol.clone());
    }
}

fn listed(headers: &HeaderMap) -> Vec<String> {
    members(headers, &CONNECTION)
        .map(str::to_ascii_lowercase)
        .collect()
}

/// Whether a header belongs to one hop, by its name or because `Connection` lists it.
fn is_of_one_hop(name: &str, listed: &[String]) -> bool {
    is_hop_by_hop(name) || listed.iter().any(|member| member == name)
}

/// Removes hop-by-hop headers and all for which `is_dropped` holds.
fn strip(headers: &mut HeaderMap, is_dropped: impl Fn(&str) -> bool) {
    let listed = listed(headers);
    let dropped: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_of_one_hop(name.as_str(), &listed) || is_dropped(name.as_str()))
        .cloned()
        .collect();
    for name in dropped {
        headers.remove(name);
    }
}

/// Members of a list header, over all its lines.
fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests;
