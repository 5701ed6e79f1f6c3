use serde_json::json;

use super::*;

fn round(facts: &[(&str, Value)]) -> CollectionRound {
    CollectionRound {
        facts: facts
            .iter()
            .map(|(name, value)| CollectedFact::whole(name, value.clone()))
            .collect(),
        forbidden: Vec::new(),
        unread: 0,
    }
}

fn sent(known: &mut KnownFacts) -> (Report, PendingReport) {
    let sent = known.report(Instance::from_bytes([1; 16]), 3600).unwrap();
    (serde_json::from_str(&sent.json).unwrap(), sent)
}

fn facts(report: &Report) -> Value {
    let facts = report.facts.iter();
    facts
        .map(|(name, fact)| {
            (
                name.to_string(),
                json!(fact.as_ref().map(|fact| &fact.value)),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn first_report_is_full_and_the_next_contains_changes() {
    let mut known = KnownFacts::default();
    assert!(known.has_changes(), "an empty cluster is a change, too");
    known.update(
        CollectorKind::Nodes,
        round(&[("nodes", json!(3)), ("other", json!(1))]),
        10,
    );
    known.update(
        CollectorKind::Version,
        round(&[("version", json!("1"))]),
        10,
    );
    let (report, first) = sent(&mut known);
    assert_eq!(report.base, None);
    assert_eq!(
        facts(&report),
        json!({ "nodes": 3, "other": 1, "version": "1" })
    );
    known.acknowledge(first.change(), "e1".to_owned());
    assert!(!known.has_changes());

    known.update(CollectorKind::Nodes, round(&[("nodes", json!(4))]), 20);
    known.update(
        CollectorKind::Version,
        round(&[("version", json!("1"))]),
        20,
    );
    assert!(known.has_changes());
    let (report, second) = sent(&mut known);
    assert_eq!(report.base.as_deref(), Some("e1"));
    assert_eq!(facts(&report), json!({ "nodes": 4, "other": null }));
    assert_eq!(report.facts.values().flatten().next().unwrap().observed, 20);
    assert!(report.sequence > 1);

    // The answer was lost, and a fact has come back meanwhile.
    known.update(
        CollectorKind::Nodes,
        round(&[("nodes", json!(4)), ("other", json!(2))]),
        30,
    );
    let (report, third) = sent(&mut known);
    assert_eq!(facts(&report), json!({ "nodes": 4, "other": 2 }));
    known.acknowledge(second.change(), "e2".to_owned());
    assert!(known.has_changes());
    known.acknowledge(third.change(), "e3".to_owned());
    assert!(!known.has_changes());
    assert_eq!(facts(&sent(&mut known).0), json!({}));

    known.reset();
    assert_eq!(
        facts(&sent(&mut known).0),
        json!({ "nodes": 4, "other": 2, "version": "1" })
    );
}

#[test]
fn forbidden_and_omitted_facts_are_reported() {
    let mut known = KnownFacts::default();
    let mut nodes = round(&[]);
    nodes.forbidden.push("list nodes");
    known.update(CollectorKind::Nodes, nodes, 1);
    let hosts: serde_json::Map<_, _> = (0..9000)
        .map(|n| (format!("{n:05}.example.com"), json!(["ns/name"])))
        .collect();
    known.update(
        CollectorKind::Hosts,
        round(&[("ingressHosts", hosts.into())]),
        1,
    );
    let mut deep = json!(1);
    for _ in 0..=MAX_FACT_DEPTH {
        deep = json!([deep]);
    }
    let additional = [
        ("deep", deep),
        ("ingressHosts", json!("mine")),
        ("incomplete", json!("mine")),
        ("a name", json!(1)),
        ("long", json!("x".repeat(MAX_FACT_BYTES))),
    ];
    known.update(CollectorKind::Additional, round(&additional), 1);
    known.update_incomplete(1);
    let (report, first) = sent(&mut known);
    let facts = facts(&report);
    let kept = facts["ingressHosts"].as_object().unwrap().len();
    assert!(facts["ingressHosts"].to_string().len() <= MAX_FACT_BYTES);
    let conflict = "the name is in use or invalid";
    assert_eq!(
        facts["incomplete"],
        json!({
            "nodes": "the agent lacks the right to: list nodes",
            "ingressHosts": conflict,
            "deep": "it exceeds the size limit of facts",
            "long": "it exceeds the size limit of facts",
            "incomplete": conflict,
            "aname": conflict,
        })
    );
    assert!(kept > 1000 && facts.as_object().unwrap().len() == 2);

    known.acknowledge(first.change(), "e".to_owned());
    known.update(CollectorKind::Nodes, round(&[]), 2);
    known.update(CollectorKind::Hosts, round(&[]), 2);
    known.update(CollectorKind::Additional, round(&[]), 2);
    known.update_incomplete(2);
    assert_eq!(
        self::facts(&sent(&mut known).0),
        json!({ "ingressHosts": null, "incomplete": null })
    );
}

#[test]
fn report_stays_within_its_bounds_for_any_facts() {
    let mut known = KnownFacts::default();
    let many: Vec<_> = (0..MAX_FACTS + 10)
        .map(|n| CollectedFact::whole(&format!("f{n}"), json!(["x".repeat(5000)])))
        .collect();
    let many = CollectionRound {
        facts: many,
        forbidden: Vec::new(),
        unread: 3,
    };
    known.update(CollectorKind::Additional, many, 1);
    known.update(
        CollectorKind::Nodes,
        round(&[("nodes", json!("y".repeat(2000)))]),
        1,
    );
    known.update_incomplete(1);
    let (report, sent) = sent(&mut known);
    let bytes: usize = known
        .facts
        .values()
        .map(|fact| fact.value.get().len())
        .sum();
    assert!(bytes <= MAX_TOTAL_FACT_BYTES && report.facts.len() <= MAX_FACTS);
    assert!(sent.json.len() <= fairlead_api::facts::MAX_REPORT_BYTES);
    assert!(
        report
            .facts
            .keys()
            .any(|name| name.as_str() == INCOMPLETE_FACT)
    );
}

#[test]
fn disabled_collector_removes_its_facts() {
    let mut known = KnownFacts::default();
    known.update(CollectorKind::Nodes, round(&[("nodes", json!(3))]), 1);
    let (_, first) = sent(&mut known);
    known.acknowledge(first.change(), "e".to_owned());
    known.remove_kind(CollectorKind::Nodes, 2);
    assert_eq!(facts(&sent(&mut known).0), json!({ "nodes": null }));
}
