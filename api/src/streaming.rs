//! Requests with an answer that streams for as long as the client listens: watches and followed logs.

/// Whether a request to an API server is a watch or follows a log.
///
/// Reads the query as the API server does (`Convert_Slice_string_To_bool` of k8s.io/apimachinery): the first value of a
/// parameter counts, and only `0` and `false`, in any case, mean no. `?watch` and `?watch=` are watches. So is the
/// deprecated form `/api/v1/watch/...` (`RequestInfoFactory` of k8s.io/apiserver). Percent-encoded parameters are not
/// decoded: no client encodes these.
#[must_use]
pub fn is_streaming(path: &str, query: Option<&str>) -> bool {
    let query = query.unwrap_or_default();
    let is_set = |parameter| !query.is_empty() && is_set(query, parameter);
    is_set("watch") || is_set("follow") || has_watch_prefix(path)
}

fn is_set(query: &str, parameter: &str) -> bool {
    let mut values = query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == parameter).then_some(value)
    });
    values
        .next()
        .is_some_and(|first| first != "0" && !first.eq_ignore_ascii_case("false"))
}

/// `/api/<version>/watch/...` or `/apis/<group>/<version>/watch/...`.
fn has_watch_prefix(path: &str) -> bool {
    // Of bytes, because a search for one character costs more than a short segment.
    let mut segments = path.as_bytes().split(|&it| it == b'/').skip(1);
    let before_verb = match segments.next() {
        Some(b"api") => 1,
        Some(b"apis") => 2,
        _ => return false,
    };
    segments.nth(before_verb) == Some(b"watch")
        && segments.next().is_some_and(|next| !next.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_an_api_server_reads_them() {
        for (target, expected) in [
            ("/api/v1/pods", false),
            ("/api/v1/pods?limit=500", false),
            ("/api/v1/pods?watch", true),
            ("/api/v1/pods?watch=", true),
            ("/api/v1/pods?watch=1&x=y", true),
            ("/api/v1/pods?limit=1&watch=true", true),
            ("/api/v1/pods?watch=True", true),
            ("/api/v1/pods?watch=t", true),
            ("/api/v1/pods?watch=no", true),
            ("/api/v1/pods?watch=0", false),
            ("/api/v1/pods?watch=false", false),
            ("/api/v1/pods?watch=FALSE", false),
            ("/api/v1/pods?watch=false&watch=true", false),
            ("/api/v1/pods?watch=true&watch=false", true),
            ("/api/v1/watches?unwatch=true&watched=1", false),
            (
                "/api/v1/namespaces/a/pods/b/log?container=c&follow=true",
                true,
            ),
            ("/api/v1/namespaces/a/pods/b/log?follow=false", false),
            ("/api/v1/watch/pods", true),
            ("/apis/apps/v1/watch/namespaces/a/deployments", true),
            ("/api/v1/watch", false),
            ("/apis/apps/v1/namespaces/watch/deployments", false),
            ("/api/v1/namespaces/a/pods/watch", false),
        ] {
            let (path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (target, None),
            };
            assert_eq!(is_streaming(path, query), expected, "{target}");
        }
    }
}
