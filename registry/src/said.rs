//! What a cluster's fact of some name is, by one rule for lists, selectors and searches: what is said of the very cluster by
//! people, else by its tenant's template, else what programs report.

use std::borrow::Cow;

use fairlead_store::model::{Cluster, ClusterTemplate, Fact};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy)]
pub enum Said<'a> {
    Fact(&'a Fact),
    OfTemplate(&'a str),
}

impl<'a> Said<'a> {
    /// With the name as it is kept; None where nobody says anything that counts.
    pub fn named(
        cluster: &'a Cluster,
        template: Option<&'a ClusterTemplate>,
        name: &str,
        counts: impl Fn(&Fact) -> bool,
    ) -> Option<(&'a str, Said<'a>)> {
        let of_people = cluster.facts.get_key_value(name);
        let of_people = of_people.filter(|(_, fact)| counts(fact));
        if let Some((name, fact)) = of_people {
            return Some((name, Said::Fact(fact)));
        }
        if let Some((name, text)) = template.and_then(|it| it.facts.get_key_value(name)) {
            return Some((name, Said::OfTemplate(text)));
        }
        let of_programs = cluster.dynamic_facts.get_key_value(name);
        let (name, fact) = of_programs.filter(|(_, fact)| counts(fact))?;
        Some((name, Said::Fact(fact)))
    }

    pub fn object(self) -> Option<&'a Map<String, Value>> {
        match self {
            Said::Fact(fact) => fact.value.as_object(),
            Said::OfTemplate(_) => None,
        }
    }

    pub fn text(self) -> Option<&'a str> {
        match self {
            Said::Fact(fact) => fact.value.as_str(),
            Said::OfTemplate(text) => Some(text),
        }
    }

    pub fn value(self) -> Cow<'a, Value> {
        match self {
            Said::Fact(fact) => Cow::Borrowed(&fact.value),
            Said::OfTemplate(text) => Cow::Owned(text.into()),
        }
    }

    /// A text as it is, all else as JSON.
    pub fn written(self) -> Cow<'a, str> {
        match (self.text(), self) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, said) => Cow::Owned(said.value().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlead_certs::Registration;
    use fairlead_store::model::{Binding, Bootstrap, FactSource};
    use serde_json::json;
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn people_come_first_then_the_template_then_programs_and_what_does_not_count_is_not_there() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let binding = Binding::open(Registration::random().unwrap(), Bootstrap::new(1, at, None));
        let ids = ("c-a".parse().unwrap(), "t-a".parse().unwrap());
        let mut cluster = Cluster::new(ids.0, ids.1, binding, at);
        let fact = |value, source| Fact {
            value,
            source,
            received: 0,
            observed: 0,
        };
        let people = fact(json!("people"), FactSource::People);
        cluster.facts.insert("a".to_owned(), people);
        for name in ["a", "b", "c"] {
            let agents = fact(json!({ "by": "agent" }), FactSource::Agent);
            cluster.dynamic_facts.insert(name.to_owned(), agents);
        }
        let template = json!({ "facts": { "a": "template", "b": "template" } });
        let template: ClusterTemplate = serde_json::from_value(template).unwrap();
        let written = |name: &str, counts: fn(&Fact) -> bool| {
            let found = Said::named(&cluster, Some(&template), name, counts);
            found.map(|(_, said)| said.written().into_owned())
        };
        let all = ["a", "b", "c", "d"].map(|name| written(name, |_| true));
        let expected = ["people", "template", r#"{"by":"agent"}"#];
        assert_eq!(all[..3], expected.map(|it| Some(it.to_owned())));
        assert_eq!(all[3], None);
        let not_agents = |fact: &Fact| fact.source != FactSource::Agent;
        assert_eq!(written("c", not_agents), None);
    }
}
