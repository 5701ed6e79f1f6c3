use fairlead_certs::Registration;
use fairlead_store::model::{Binding, Bootstrap, FactSource};
use serde_json::json;
use time::OffsetDateTime;

use super::*;

#[test]
fn people_precede_the_template_and_programs() {
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
        let found = EffectiveFact::named(&cluster, Some(&template), name, counts);
        found.map(|(_, fact)| fact.written().into_owned())
    };
    let all = ["a", "b", "c", "d"].map(|name| written(name, |_| true));
    let expected = ["people", "template", r#"{"by":"agent"}"#];
    assert_eq!(all[..3], expected.map(|it| Some(it.to_owned())));
    assert_eq!(all[3], None);
    let not_agents = |fact: &Fact| fact.source != FactSource::Agent;
    assert_eq!(written("c", not_agents), None);
}
