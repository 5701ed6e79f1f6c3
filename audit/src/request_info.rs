//! Kubernetes request info: verb and resource of a request, from its method, path and query.
//!
//! Follows `RequestInfoFactory` of `k8s.io/apiserver/pkg/endpoints/request`.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Query parameters that hold no secret. All others stay out of the log.
const HARMLESS_KEYS: [&str; 24] = [
    "allowWatchBookmarks",
    "command",
    "container",
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "labelSelector",
    "limit",
    "ports",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "sinceSeconds",
    "stderr",
    "stdin",
    "stdout",
    "tailLines",
    "tty",
    "watch",
];
/// Limits of the logged query: number of values, and bytes of each.
const MAX_VALUES: usize = 64;
const MAX_VALUE_BYTES: usize = 512;
/// Limit of a logged path in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 2048;

/// Resource that a request names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ResourceInfo {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version, like `v1`.
    pub version: String,
    /// Plural name, like `pods`.
    pub resource: String,
    /// Subresource, like `exec`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Namespace; empty for resources of the whole cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object; empty for collections.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Verb and resource of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// Kubernetes verb, or the method in lower case for other paths.
    pub verb: &'static str,
    /// `None` for paths without a resource, like `/version`.
    pub resource: Option<ResourceInfo>,
}

impl RequestInfo {
    /// Parses a request to an API server.
    #[must_use]
    pub fn parse(method: &str, path: &str, query: Option<&str>) -> Self {
        let path = decoded(path);
        let resource = ResourceParts::of(&path);
        RequestInfo {
            verb: verb_of(method, resource.as_ref(), query),
            resource: resource.map(ResourceInfo::from),
        }
    }

    /// Request info of a path that is not of an API server.
    #[must_use]
    pub fn of_method(method: &str) -> Self {
        RequestInfo {
            verb: plain_verb(method),
            resource: None,
        }
    }
}

/// Kubernetes verb of a request, or its method in lower case.
pub(crate) fn verb_of(
    method: &str,
    resource: Option<&ResourceParts<'_>>,
    query: Option<&str>,
) -> &'static str {
    match resource {
        Some(resource) => resource_verb(method, resource, query),
        None => plain_verb(method),
    }
}

/// Parts of a path that name a resource, as [`ResourceInfo`].
#[derive(Debug, Default)]
pub(crate) struct ResourceParts<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl From<ResourceParts<'_>> for ResourceInfo {
    fn from(parts: ResourceParts<'_>) -> Self {
        ResourceInfo {
            group: parts.group.to_owned(),
            version: parts.version.to_owned(),
            resource: parts.resource.to_owned(),
            subresource: parts.subresource.to_owned(),
            namespace: parts.namespace.to_owned(),
            name: parts.name.to_owned(),
        }
    }
}

impl<'a> ResourceParts<'a> {
    /// Splits a decoded path, as the API server does. The gateway rejects encoded slashes.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        if matches!(parts.peek(), Some(&("watch" | "proxy"))) {
            // Deprecated forms `/api/v1/watch/...`; the verb follows from the method or the prefix.
            parts.next();
        }
        let first = parts.next()?;
        let mut info = ResourceParts {
            group,
            version,
            resource: first,
            ..ResourceParts::default()
        };
        if first == "namespaces"
            && let Some(namespace) = parts.next()
        {
            info.namespace = namespace;
            match parts.next() {
                // The namespace's own subresources are not resources in it.
                Some(sub @ ("status" | "finalize")) => {
                    (info.name, info.subresource) = (namespace, sub);
                    return Some(info);
                }
                Some(resource) => info.resource = resource,
                None => {
                    info.name = namespace;
                    return Some(info);
                }
            }
        }
        info.name = parts.next().unwrap_or_default();
        info.subresource = parts.next().unwrap_or_default();
        Some(info)
    }
}

fn resource_verb(method: &str, resource: &ResourceParts<'_>, query: Option<&str>) -> &'static str {
    let collection = resource.name.is_empty();
    match method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if collection => "deletecollection",
        "DELETE" => "delete",
        "GET" | "HEAD" if watches(query) && resource.subresource.is_empty() => "watch",
        "GET" | "HEAD" if collection => "list",
        _ => plain_verb(method),
    }
}

fn watches(query: Option<&str>) -> bool {
    let pairs = query.unwrap_or_default().split('&');
    pairs
        .filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == "watch").then_some(value)
        })
        .any(|value| !matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F"))
}

fn plain_verb(method: &str) -> &'static str {
    match method {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "other",
    }
}

/// Harmless parameters of a query, with all values of each.
#[must_use]
pub fn harmless_query(query: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    let pairs = query.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        HARMLESS_KEYS.contains(&key).then_some((key, value))
    });
    for (key, value) in pairs.take(MAX_VALUES) {
        let mut value = decoded(&value.replace('+', " ")).into_owned();
        cut(&mut value, MAX_VALUE_BYTES);
        found.entry(key.to_owned()).or_default().push(value);
    }
    found
}

/// Cuts a text at a character border.
pub(crate) fn cut(text: &mut String, max: usize) {
    if text.len() > max {
        let mut end = max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
}

/// Text with its percent-encoding resolved, once.
pub(crate) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let escape = (first == b'%')
            .then(|| behind.split_at_checked(2))
            .flatten();
        let byte = escape.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((first, behind));
        bytes.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> String {
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (uri, None),
        };
        let info = RequestInfo::parse(method, path, query);
        let of = info.resource.map_or("-".to_owned(), |it| {
            let parts = [
                it.group,
                it.version,
                it.namespace,
                it.resource,
                it.name,
                it.subresource,
            ];
            parts.join(",")
        });
        format!("{} {of}", info.verb)
    }

    #[test]
    fn requests_are_parsed_as_the_api_server_parses_them() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "list ,v1,,pods,,"),
            ("GET", "/api/v1/pods?watch=true", "watch ,v1,,pods,,"),
            ("GET", "/api/v1/pods?watch=1&limit=1", "watch ,v1,,pods,,"),
            ("GET", "/api/v1/pods?watch=0", "list ,v1,,pods,,"),
            ("GET", "/api/v1/namespaces", "list ,v1,,namespaces,,"),
            ("GET", "/api/v1/namespaces/a", "get ,v1,a,namespaces,a,"),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "update ,v1,a,namespaces,a,finalize",
            ),
            ("GET", "/api/v1/namespaces/a/pods/p", "get ,v1,a,pods,p,"),
            (
                "POST",
                "/api/v1/namespaces/a/pods/p/exec?command=ls",
                "create ,v1,a,pods,p,exec",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/p/log?follow=true",
                "get ,v1,a,pods,p,log",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection apps,v1,a,deployments,,",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "patch apps,v1,a,deployments,d,scale",
            ),
            ("GET", "/apis/apps/v1", "get -"),
            (
                "GET",
                "/%61pi/v1/%6eamespaces/a/%70ods/p/%65xec",
                "get ,v1,a,pods,p,exec",
            ),
            ("GET", "/version", "get -"),
            ("GET", "/", "get -"),
            ("BREW", "/api/v1/pods", "other ,v1,,pods,,"),
        ] {
            assert_eq!(parse(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn secrets_of_a_query_are_not_kept() {
        let query = "command=sh&command=-c&command=echo+%22a%22&container=app&token=hunter2&x=%zz";
        let found = harmless_query(query);
        assert_eq!(found["command"], ["sh", "-c", "echo \"a\""]);
        assert_eq!(found["container"], ["app"]);
        assert_eq!(found.len(), 2);
        let long = harmless_query(&format!("command={}", "é".repeat(1000)));
        assert!(long["command"][0].len() <= MAX_VALUE_BYTES + 3);
    }
}
