//! Effective value of a fact, by one rule for lists, selectors and searches: the cluster's value
//! set by people, else the tenant template's, else the reported one.

use std::borrow::Cow;

use fairlead_store::model::{Cluster, ClusterTemplate, Fact};
use serde_json::{Map, Value};

/// Value that a selector compares: an annotation, else a fact.
pub fn label_of<'a>(
    cluster: &'a Cluster,
    template: Option<&'a ClusterTemplate>,
    key: &str,
    counts: impl Fn(&Fact) -> bool,
) -> Option<Cow<'a, str>> {
    let own = cluster.annotations.get(key);
    let annotation = own.or_else(|| template?.annotations.get(key));
    if let Some(text) = annotation {
        return Some(Cow::Borrowed(text));
    }
    let (_, fact) = EffectiveFact::named(cluster, template, key, counts)?;
    Some(fact.written())
}

/// Effective value of a fact.
#[derive(Debug, Clone, Copy)]
pub enum EffectiveFact<'a> {
    /// A fact of the cluster.
    Fact(&'a Fact),
    /// A value of the tenant's template.
    Template(&'a str),
}

impl<'a> EffectiveFact<'a> {
    /// The fact with its stored name; `None` if no source provides a value that counts.
    pub fn named(
        cluster: &'a Cluster,
        template: Option<&'a ClusterTemplate>,
        name: &str,
        counts: impl Fn(&Fact) -> bool,
    ) -> Option<(&'a str, EffectiveFact<'a>)> {
        let of_people = cluster.facts.get_key_value(name);
        let of_people = of_people.filter(|(_, fact)| counts(fact));
        if let Some((name, fact)) = of_people {
            return Some((name, EffectiveFact::Fact(fact)));
        }
        if let Some((name, text)) = template.and_then(|it| it.facts.get_key_value(name)) {
            return Some((name, EffectiveFact::Template(text)));
        }
        let of_programs = cluster.dynamic_facts.get_key_value(name);
        let (name, fact) = of_programs.filter(|(_, fact)| counts(fact))?;
        Some((name, EffectiveFact::Fact(fact)))
    }

    /// The value as an object.
    pub fn object(self) -> Option<&'a Map<String, Value>> {
        match self {
            EffectiveFact::Fact(fact) => fact.value.as_object(),
            EffectiveFact::Template(_) => None,
        }
    }

    /// The value as a string.
    pub fn text(self) -> Option<&'a str> {
        match self {
            EffectiveFact::Fact(fact) => fact.value.as_str(),
            EffectiveFact::Template(text) => Some(text),
        }
    }

    /// The value.
    pub fn value(self) -> Cow<'a, Value> {
        match self {
            EffectiveFact::Fact(fact) => Cow::Borrowed(&fact.value),
            EffectiveFact::Template(text) => Cow::Owned(text.into()),
        }
    }

    /// Strings verbatim, other values as JSON.
    pub fn written(self) -> Cow<'a, str> {
        match (self.text(), self) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, fact) => Cow::Owned(fact.value().to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
