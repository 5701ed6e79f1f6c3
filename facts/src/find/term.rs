//! Search terms, and their match against the facts of a cluster.

use std::cmp::Ordering;

use fairlead_registry::EffectiveFact;
use fairlead_routes::InvalidValue;
use fairlead_store::model::{Cluster, ClusterTemplate};
use serde_json::Value;

use crate::find::{
    component,
    version::{Comparison, LooseVersion, Versions, of_chart},
};

/// One condition of a search.
#[derive(Debug, Clone)]
pub(super) enum Term {
    /// In lower case.
    Host(String),
    Version(Versions),
    /// Part of a name in lower case, and a version range.
    Service(String, Option<Versions>),
    /// Name in lower case, and a version range.
    Component(String, Option<Versions>),
    Fact(String, Option<(Comparison, String)>),
}

/// A fact that matches a term.
pub(super) struct Hit<'a> {
    pub(super) name: &'a str,
    pub(super) fact: EffectiveFact<'a>,
    /// Matching key within the fact, if it is an object.
    pub(super) key: Option<String>,
    pub(super) value: Value,
}

const HOSTS: [&str; 3] = ["ingressHosts", "routeHosts", "gatewayHosts"];
const LOGIN: &str = "openshiftOAuthRoute";
const VERSION: &str = "kubernetesVersion";
/// Maximum length of a term, in bytes.
const MAX_TERM_BYTES: usize = 512;

impl Term {
    /// Parses a term.
    ///
    /// # Errors
    /// `FL-4109` for an unknown kind, or an invalid text.
    pub(super) fn read(kind: &str, text: &str) -> Result<Term, InvalidValue> {
        let invalid = |detail: &str| InvalidValue::because(format_args!("{kind}: {detail}"));
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_TERM_BYTES {
            return Err(invalid("expected 1 to 512 characters"));
        }
        match kind {
            "host" => Ok(Term::Host(text.trim_end_matches('.').to_lowercase())),
            "version" => {
                let versions = Versions::read(text);
                let versions = versions
                    .ok_or_else(|| invalid("expected a version, like <1.31 or >=1.29,<1.31"))?;
                Ok(Term::Version(versions))
            }
            "service" => {
                let (name, versions) = named_versions(text)
                    .ok_or_else(|| invalid("expected a name, like postgres or postgres<15"))?;
                Ok(Term::Service(name, versions))
            }
            "component" => {
                let (name, versions) = named_versions(text).ok_or_else(|| {
                    invalid("expected a name, like ingress-nginx or ingress-nginx<4.11")
                })?;
                Ok(Term::Component(name, versions))
            }
            "fact" => {
                let (name, behind) = split(text);
                let mut all = Comparison::ALL.into_iter();
                let found = all.find_map(|(sign, it)| {
                    Some((it, behind.strip_prefix(sign)?.trim().to_owned()))
                });
                match name {
                    "" => Err(invalid("expected a name, like distribution=openshift4")),
                    name => Ok(Term::Fact(name.to_owned(), found)),
                }
            }
            _ => Err(InvalidValue::because(format_args!(
                "{kind:?}: expected host, version, service, component or fact"
            ))),
        }
    }

    /// Matching facts; empty if the cluster does not match.
    pub(super) fn hits<'a>(
        &self,
        cluster: &'a Cluster,
        template: Option<&'a ClusterTemplate>,
    ) -> Vec<Hit<'a>> {
        let of = Of { cluster, template };
        match self {
            Term::Host(host) => hosts(of, host),
            Term::Version(versions) => version(of, versions).into_iter().collect(),
            Term::Service(name, versions) => services(of, name, versions.as_ref()),
            Term::Component(name, versions) => component::hits(of, name, versions.as_ref()),
            Term::Fact(path, test) => fact(of, path, test.as_ref()).into_iter().collect(),
        }
    }
}

/// Facts of one cluster.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    cluster: &'a Cluster,
    template: Option<&'a ClusterTemplate>,
}

impl<'a> Of<'a> {
    fn named(self, name: &str) -> Option<(&'a str, EffectiveFact<'a>)> {
        EffectiveFact::named(self.cluster, self.template, name, |_| true)
    }

    /// Entries of a fact with an object as value.
    pub(super) fn entries(
        self,
        name: &str,
    ) -> impl Iterator<Item = (&'a str, EffectiveFact<'a>, &'a String, &'a Value)> + use<'a> {
        let found = self.named(name).into_iter();
        found.flat_map(|(name, fact)| {
            let entries = fact.object().into_iter().flatten();
            entries.map(move |(key, value)| (name, fact, key, value))
        })
    }
}

/// Splits a name from the comparison after it.
fn split(text: &str) -> (&str, &str) {
    let at = text.find(['<', '>', '=', '!']).unwrap_or(text.len());
    let (name, behind) = text.split_at_checked(at).unwrap_or((text, ""));
    (name.trim(), behind.trim())
}

/// Name in lower case, and the version range behind it; `None` for an invalid range.
fn named_versions(text: &str) -> Option<(String, Option<Versions>)> {
    let (name, behind) = split(text);
    let versions = match behind {
        "" => None,
        behind => Some(Versions::read(behind)?),
    };
    Some((name.to_lowercase(), versions))
}

fn hosts<'a>(of: Of<'a>, wanted: &str) -> Vec<Hit<'a>> {
    let of_objects = HOSTS.into_iter().flat_map(|name| of.entries(name));
    let of_objects =
        of_objects.map(|(name, fact, host, places)| (name, fact, host.as_str(), places.clone()));
    let login = of.named(LOGIN).and_then(|(name, fact)| {
        let host = fact.text()?;
        Some((name, fact, host, Value::Null))
    });
    let all = of_objects.chain(login);
    all.filter(|(_, _, host, _)| is_host(host, wanted))
        .map(|(name, fact, host, value)| Hit {
            name,
            fact,
            key: Some(host.to_owned()),
            value,
        })
        .collect()
}

/// True if requests for `wanted` reach `host`; a `*` matches one label, on either side.
fn is_host(host: &str, wanted: &str) -> bool {
    let below = |pattern: &str, host: &str| {
        let domain = pattern.strip_prefix("*.");
        let label = domain.and_then(|domain| host.strip_suffix(domain)?.strip_suffix('.'));
        label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
    };
    host == wanted || below(host, wanted) || below(wanted, host)
}

fn version<'a>(of: Of<'a>, wanted: &Versions) -> Option<Hit<'a>> {
    let (name, fact) = of.named(VERSION)?;
    let part = |key: &str| fact.object()?.get(key)?.as_str();
    let text = match part("gitVersion").or(fact.text()) {
        Some(text) => text.to_owned(),
        None => format!("{}.{}", part("major")?, part("minor")?),
    };
    let found = wanted.contain(&LooseVersion::read(&text)?);
    found.then(|| Hit {
        name,
        fact,
        key: None,
        value: text.into(),
    })
}

fn services<'a>(of: Of<'a>, wanted: &str, versions: Option<&Versions>) -> Vec<Hit<'a>> {
    let is_named = |name: &str| name.to_lowercase().contains(wanted);
    let is_of = |version: &str| {
        versions.is_none_or(|wanted| {
            LooseVersion::read(version).is_some_and(|version| wanted.contain(&version))
        })
    };
    let services = of.entries("services").filter(|it| is_named(it.2));
    let services = services.flat_map(|(name, fact, service, found)| {
        let versions = found.as_object().into_iter().flatten();
        let versions = versions.filter(|(version, _)| is_of(version));
        versions.map(move |(version, places)| Hit {
            name,
            fact,
            key: Some(format!("{service} {version}").trim_end().to_owned()),
            value: places.clone(),
        })
    });
    let charts = of.entries("charts");
    let charts = charts.filter(|(_, _, chart, _)| is_named(chart) && is_of(of_chart(chart)));
    let releases = of.entries("helmReleases");
    let releases = releases.filter(|it| is_named(it.2) && versions.is_none());
    let whole = charts.chain(releases).map(|(name, fact, key, value)| Hit {
        name,
        fact,
        key: Some(key.clone()),
        value: value.clone(),
    });
    services.chain(whole).collect()
}

fn fact<'a>(of: Of<'a>, path: &str, test: Option<&(Comparison, String)>) -> Option<Hit<'a>> {
    let mut ends = path
        .match_indices('.')
        .map(|(at, _)| at)
        .collect::<Vec<_>>();
    ends.push(path.len());
    // Names may contain dots; the longest match wins.
    let (name, fact, value) = ends.into_iter().rev().find_map(|end| {
        let (name, rest) = path.split_at_checked(end)?;
        let (name, fact) = of.named(name)?;
        let whole = fact.value();
        let value = descend(&whole, rest.strip_prefix('.').unwrap_or(rest))?;
        Some((name, fact, value.clone()))
    })?;
    let holds = test.is_none_or(|(comparison, wanted)| compare(&value, *comparison, wanted));
    holds.then(|| Hit {
        name,
        fact,
        key: (path != name).then(|| path.to_owned()),
        value,
    })
}

fn descend<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    let mut dots = path.match_indices('.');
    dots.find_map(|(at, _)| {
        let (key, rest) = path.split_at_checked(at)?;
        descend(value.get(key)?, rest.strip_prefix('.')?)
    })
}

/// Compares numbers as numbers and versions as versions. A list or object equals if one entry or
/// key does.
fn compare(value: &Value, comparison: Comparison, wanted: &str) -> bool {
    let equals = |text: &Value| match text {
        Value::String(text) => text == wanted,
        other => wanted.parse().is_ok_and(|wanted: Value| wanted == *other),
    };
    match (comparison, value) {
        (Comparison::Equal, Value::Array(list)) => return list.iter().any(equals),
        (Comparison::NotEqual, Value::Array(list)) => return !list.iter().any(equals),
        (Comparison::Equal, Value::Object(object)) => return object.contains_key(wanted),
        (Comparison::NotEqual, Value::Object(object)) => return !object.contains_key(wanted),
        (Comparison::Equal, value) if equals(value) => return true,
        (Comparison::NotEqual, Value::String(_) | Value::Bool(_) | Value::Null) => {
            return !equals(value);
        }
        (Comparison::Equal, Value::String(_)) => return false,
        _ => {}
    }
    let order = match value {
        Value::Number(number) => number
            .as_f64()
            .and_then(|number| number.partial_cmp(&wanted.parse().ok()?)),
        Value::String(text) => ordered(text, wanted),
        _ => None,
    };
    order.is_some_and(|order| comparison.holds(order))
}

fn ordered(text: &str, wanted: &str) -> Option<Ordering> {
    if let (Ok(one), Ok(other)) = (text.parse::<f64>(), wanted.parse::<f64>()) {
        return one.partial_cmp(&other);
    }
    match (LooseVersion::read(text), LooseVersion::read(wanted)) {
        (Some(one), Some(other)) => Some(one.compare(&other)),
        _ => Some(text.cmp(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_star_matches_one_label() {
        for (host, wanted, is) in [
            ("shop.example.com", "shop.example.com", true),
            ("*.example.com", "shop.example.com", true),
            ("shop.example.com", "*.example.com", true),
            ("*.example.com", "a.shop.example.com", false),
            ("*.example.com", "example.com", false),
            ("shop.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
        ] {
            assert_eq!(is_host(host, wanted), is, "{host} {wanted}");
        }
    }

    #[test]
    fn values_are_compared_by_type() {
        for (value, test, holds) in [
            (json!("openshift4"), "=openshift4", true),
            (json!("openshift4"), "!=openshift4", false),
            (json!("openshift4"), "=openshift", false),
            (json!(12), "=12", true),
            (json!(12), ">=9", true),
            (json!(12), "!=12", false),
            (json!(11.92), "<12", true),
            (json!("9"), "<10", true),
            (json!("v1.9.0"), "<1.10", true),
            (json!(true), "=true", true),
            (json!(["a", "b"]), "=b", true),
            (json!(["a", "b"]), "!=b", false),
            (json!({ "v1.37.1": 3 }), "=v1.37.1", true),
            (json!({ "v1.37.1": 3 }), "<2", false),
            (json!(1), "<x", false),
        ] {
            let Ok(Term::Fact(_, Some((comparison, wanted)))) =
                Term::read("fact", &format!("a{test}"))
            else {
                panic!("{test}");
            };
            assert_eq!(
                compare(&value, comparison, &wanted),
                holds,
                "{value} {test}"
            );
        }
    }

    #[test]
    fn paths_lead_through_names_and_keys_with_dots() {
        let value = json!({ "labels": { "a.b/c=d": 3 }, "x": { "y": 1 } });
        assert_eq!(descend(&value, "labels.a.b/c=d"), Some(&json!(3)));
        assert_eq!(descend(&value, "x.y"), Some(&json!(1)));
        assert_eq!(descend(&value, "x.z"), None);
        assert_eq!(descend(&value, "x.y.z"), None);
    }

    #[test]
    fn invalid_terms_are_rejected() {
        let long = "x".repeat(MAX_TERM_BYTES + 1);
        for (kind, text) in [
            ("colour", "red"),
            ("host", " "),
            ("version", "new"),
            ("service", "postgres<new"),
            ("component", "ingress-nginx<new"),
            ("fact", "=x"),
            ("fact", &long),
        ] {
            assert!(Term::read(kind, text).is_err(), "{kind} {text}");
        }
    }
}
