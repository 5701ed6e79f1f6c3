use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use fairlead_api::{
    ClusterId, GroupId, TenantId,
    delivery::{ArtifactId, Spec},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    canonical::spec_id,
    variables::{UsedVariables, substitute},
};

/// A cluster with owned fields.
struct TestCluster {
    id: ClusterId,
    tenant: TenantId,
    facts: BTreeMap<String, Value>,
    annotations: BTreeMap<String, String>,
    group: Option<GroupId>,
}

impl TestCluster {
    fn new(name: &str, facts: Value, annotations: Value) -> Self {
        TestCluster {
            id: ClusterId::from_name(name).unwrap(),
            tenant: TenantId::from_name("shop-berlin").unwrap(),
            facts: serde_json::from_value(facts).unwrap(),
            annotations: serde_json::from_value(annotations).unwrap(),
            group: None,
        }
    }

    fn outcome(&self, renderer: &mut Renderer) -> Outcome {
        let annotation = |name: &str| self.annotations.get(name).map(|it| Cow::from(it.as_str()));
        let fact = |name: &str| self.facts.get(name).map(Cow::Borrowed);
        let label = |name: &str| {
            let fact = || self.facts.get(name)?.as_str().map(Cow::from);
            annotation(name).or_else(fact)
        };
        renderer.render(&ClusterView {
            id: &self.id,
            name: "Berlin",
            tenant: &self.tenant,
            is_below: &|tenant| self.tenant.as_str().starts_with(tenant.as_str()),
            label: &label,
            fact: &fact,
            annotation: &annotation,
            in_group: &|group| self.group.as_ref() == Some(group),
        })
    }

    fn spec(&self, renderer: &mut Renderer) -> Spec {
        match self.outcome(renderer) {
            Outcome::Spec { spec, .. } => serde_json::from_slice(&spec.json).unwrap(),
            other => panic!("{}: {other:?}", self.id),
        }
    }
}

fn generation(fields: Value, text: &str) -> Generation {
    Generation {
        bundle: "b-web".parse().unwrap(),
        tenant: "t-shop".parse().unwrap(),
        artifact: ArtifactId::of_sha256(&[7; 32]),
        used: UsedVariables::of_text(text),
        fields: serde_json::from_value(fields).unwrap(),
    }
}

fn renderer(fields: Value, text: &str) -> Renderer {
    Renderer::new(generation(fields, text))
}

#[test]
fn first_matching_target_wins() {
    let mut renderer = renderer(
        json!({"targets": [
            {"name": "skipped", "clusters": ["c-off"], "skip": true},
            {"name": "named", "clusters": ["c-one"]},
            {"name": "group", "groups": ["g-edge"]},
            {"name": "label", "selector": "env in (prod,stage),!old"},
            {"name": "both", "selector": "env=dev", "clusters": ["c-two"]},
        ]}),
        "",
    );
    let mut target = |name: &str, annotations: Value, group: Option<&str>| {
        let mut cluster = TestCluster::new(name, json!({}), annotations);
        cluster.group = group.map(|it| it.parse().unwrap());
        match cluster.outcome(&mut renderer) {
            Outcome::Spec { target, .. } => target.to_string(),
            Outcome::Skipped { target } => format!("skipped {target}"),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(target("off", json!({"env": "prod"}), None), "skipped 0");
    assert_eq!(target("one", json!({"env": "prod"}), None), "1");
    assert_eq!(target("x", json!({"env": "prod"}), Some("g-edge")), "2");
    assert_eq!(target("x", json!({"env": "prod"}), Some("g-other")), "3");
    assert_eq!(
        target("x", json!({"env": "prod", "old": ""}), None),
        "Unmatched"
    );
    assert_eq!(target("x", json!({"env": "dev"}), None), "4");
    assert_eq!(target("two", json!({}), None), "4");
    assert_eq!(target("three", json!({}), None), "Unmatched");
}

#[test]
fn a_bundle_reaches_its_tenant_and_those_below() {
    let mut renderer = renderer(json!({"targets": [{"selector": ""}]}), "");
    let mut cluster = TestCluster::new("a", json!({}), json!({}));
    assert!(cluster.outcome(&mut renderer).is_targeted());
    cluster.tenant = "t-other".parse().unwrap();
    assert_eq!(cluster.outcome(&mut renderer), Outcome::Unmatched);
}

#[test]
fn a_manifests_spec_has_the_variables_of_its_files() {
    let text =
        "${cluster.facts.kubernetes.version} ${vars.replicas} ${vars.other:-1} ${vars.password}";
    let mut renderer = renderer(
        json!({
            "vars": {"replicas": 2, "unused": 1, "image": "web:1"},
            "patches": [{"target": {"kind": "Deployment"}, "merge": {"image": "${vars.image}", "name": "${cluster.id}"}}],
            "secrets": [{"name": "db", "key": "password", "as": "vars.password"}],
            "targets": [{"selector": "", "namespace": "shop", "vars": {"replicas": 3}}],
            "timeout": "5m",
        }),
        text,
    );
    let cluster = TestCluster::new("a", json!({"kubernetes.version": "1.37"}), json!({}));
    let spec = cluster.spec(&mut renderer);
    assert_eq!(
        json!(spec.variables),
        json!({"cluster.facts.kubernetes.version": "1.37", "vars.replicas": 3})
    );
    assert_eq!(
        spec.patches[0].merge,
        Some(json!({"image": "web:1", "name": "c-a"}))
    );
    assert_eq!(
        (spec.namespace.as_str(), spec.service_account.as_str()),
        ("shop", "deployer")
    );
    assert_eq!(
        (spec.timeout_seconds, spec.retries, spec.prune),
        (300, 5, true)
    );
    assert_eq!(spec.helm, None);
    assert_eq!(spec.secrets.len(), 1);
}

#[test]
fn a_helm_spec_has_its_values_replaced() {
    let mut renderer = renderer(
        json!({
            "kind": "helm",
            "vars": {"replicas": 2},
            "helm": {"values": {"replicas": "${vars.replicas}", "host": "${cluster.id}.${cluster.annotations.example.org/domain}", "drop": 1, "home": "${HOME}"}},
            "targets": [{"selector": "", "values": {"drop": null, "zone": "${cluster.facts.zone:-none}"}}],
        }),
        "${vars.only-in-a-template}",
    );
    let cluster = TestCluster::new("a", json!({}), json!({"example.org/domain": "example.org"}));
    let spec = cluster.spec(&mut renderer);
    let helm = spec.helm.unwrap();
    assert_eq!(
        json!(helm.values),
        json!({"replicas": 2, "host": "c-a.example.org", "home": "${HOME}", "zone": "none"})
    );
    assert_eq!(helm.release.as_deref(), Some("web"));
    assert_eq!(helm.timeout.unwrap().to_string(), "5m");
    assert_eq!(spec.variables, BTreeMap::new());
}

#[test]
fn a_missing_variable_blocks_its_cluster_only() {
    let text = "${cluster.facts.zone} ${vars.missing} ${cluster.facts.rack:-r1}";
    let mut renderer = renderer(
        json!({"targets": [
            {"selector": "env=prod", "vars": {"missing": 1}},
            {"selector": ""},
        ]}),
        text,
    );
    let zoned = TestCluster::new("a", json!({"zone": "z1"}), json!({"env": "prod"}));
    assert!(matches!(zoned.outcome(&mut renderer), Outcome::Spec { .. }));
    let bare = TestCluster::new("b", json!({}), json!({"env": "prod"}));
    let Outcome::Blocked { reasons, .. } = bare.outcome(&mut renderer) else {
        panic!("a variable is missing");
    };
    assert_eq!(
        reasons,
        ["variable cluster.facts.zone has no value for this cluster and no default"]
    );
    let other = TestCluster::new("c", json!({}), json!({}));
    let Outcome::Blocked { reasons, target } = other.outcome(&mut renderer) else {
        panic!("two variables are missing");
    };
    assert_eq!((reasons.len(), target), (2, 1));
    assert!(reasons[0].contains("vars.missing"), "{reasons:?}");
}

#[test]
fn equal_content_is_one_spec() {
    let fields = json!({"targets": [
        {"name": "a", "selector": "env=prod"},
        {"name": "b", "selector": "", "vars": {"unused": 1}},
    ]});
    let mut renderer = renderer(fields, "${cluster.facts.zone:-none}");
    let mut ids = BTreeSet::new();
    for (name, facts, annotations) in [
        ("a", json!({"zone": "none"}), json!({"env": "prod"})),
        (
            "b",
            json!({"zone": "none", "other": 1}),
            json!({"env": "prod"}),
        ),
        ("c", json!({"zone": "none"}), json!({})),
    ] {
        let outcome = TestCluster::new(name, facts, annotations).outcome(&mut renderer);
        ids.insert(outcome.spec_id().unwrap().clone());
    }
    assert_eq!(ids.len(), 1);
    assert_eq!(renderer.specs().count(), 1);
    // A default is the text's, so a missing fact is other content than a fact of that value.
    let outcome = TestCluster::new("d", json!({}), json!({})).outcome(&mut renderer);
    assert!(!ids.contains(outcome.spec_id().unwrap()));
}

#[test]
fn values_of_different_types_are_different_specs() {
    let mut renderer = renderer(
        json!({"targets": [{"selector": ""}]}),
        "${cluster.facts.a:-} ${cluster.facts.b:-}",
    );
    let mut ids = BTreeSet::new();
    let facts = [
        json!({}),
        json!({"a": null}),
        json!({"a": ""}),
        json!({"b": ""}),
        json!({"a": "-"}),
        json!({"a": 1}),
        json!({"a": "1"}),
        json!({"a": -1}),
        json!({"a": "1\n1"}),
        json!({"a": "x", "b": "y"}),
        json!({"a": "y", "b": "x"}),
    ];
    for facts in facts {
        let outcome = TestCluster::new("a", facts, json!({})).outcome(&mut renderer);
        ids.insert(outcome.spec_id().unwrap().clone());
    }
    assert_eq!(ids.len(), 11);
}

/// Ids must be the same in all versions of hub and agent: otherwise an upgrade applies every bundle again.
#[test]
fn the_name_of_a_spec_is_stable() {
    let mut renderer = renderer(
        json!({"vars": {"a": 1}, "dependsOn": ["b-crds"], "targets": [{"selector": ""}]}),
        "${vars.a} ${cluster.id}",
    );
    let outcome = TestCluster::new("a", json!({}), json!({})).outcome(&mut renderer);
    let Outcome::Spec { spec, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let json = String::from_utf8(spec.json.clone()).unwrap();
    let artifact = ArtifactId::of_sha256(&[7; 32]);
    assert_eq!(
        json,
        format!(
            r#"{{"adopt":false,"artifact":"{artifact}","bundle":"b-web","conflicts":"fail","dependsOn":["b-crds"],"drift":"correct","kind":"manifests","namespace":"default","prune":true,"retries":5,"serviceAccount":"deployer","tenant":"t-shop","timeoutSeconds":600,"variables":{{"cluster.id":"c-a","vars.a":1}}}}"#
        )
    );
    let parsed: Spec = serde_json::from_str(&json).unwrap();
    assert_eq!(spec_id(&parsed), (spec.id.clone(), spec.json.clone()));
}

/// Strings of values and patches, and variables in them.
fn any_value() -> impl Strategy<Value = Value> {
    let text =
        "[a-z\"]{0,3}(\\$\\{(vars\\.a|cluster\\.id|cluster\\.facts\\.zone:-z)\\})?[$a-z]{0,2}";
    let scalar = prop_oneof![
        text.prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
    ];
    scalar.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{0,3}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_rendered_spec_equals_the_replaced_one(value in any_value(), var in any_value(), is_helm in any::<bool>()) {
        let fields = if is_helm {
            json!({"kind": "helm", "helm": {"values": {"v": value}}, "vars": {"a": var}, "targets": [{"selector": ""}]})
        } else {
            let patch = json!({"target": {"kind": "A"}, "merge": {"v": value}});
            json!({"patches": [patch], "vars": {"a": var}, "targets": [{"selector": ""}]})
        };
        let cluster = TestCluster::new("a", json!({}), json!({}));
        let mut renderer = renderer(fields, "${cluster.id}");
        let mut expected = json!({"v": value});
        let lookup = |name: &str| match name {
            "vars.a" => (!var.is_null()).then_some(Cow::Borrowed(&var)),
            "cluster.id" => Some(Cow::Owned(json!("c-a"))),
            _ => None,
        };
        let replaced = substitute(&mut expected, &lookup);
        match cluster.outcome(&mut renderer) {
            Outcome::Spec { spec, .. } => {
                let parsed: Spec = serde_json::from_slice(&spec.json).unwrap();
                let found = match &parsed.helm {
                    Some(helm) => json!(helm.values),
                    None => parsed.patches[0].merge.clone().unwrap(),
                };
                prop_assert_eq!(found, expected);
                prop_assert_eq!(spec_id(&parsed), (spec.id.clone(), spec.json.clone()));
            }
            other => prop_assert!(replaced.is_err(), "{:?}", other),
        }
    }
}

/// Prints the processor time of each cluster; asserts only the number of specs, since machines differ.
#[test]
fn ten_thousand_clusters_share_a_spec() {
    let values: Map<String, Value> = (0..100)
        .map(|number| {
            (
                format!("key{number}"),
                json!({"a": ["x", "y"], "b": number}),
            )
        })
        .collect();
    let mut fields = json!({"kind": "helm", "helm": {"values": values}, "targets": [
        {"selector": "env=dev", "skip": true},
        {"selector": "env in (prod,stage)"},
    ]});
    let clusters: Vec<_> = (0..10_000)
        .map(|number| {
            let facts = json!({"cloud": "aws", "kubernetes.version": "1.37"});
            TestCluster::new(&format!("n{number}"), facts, json!({"env": "prod"}))
        })
        .collect();
    let mut measure = |value: &str, distinct: usize| {
        fields["helm"]["values"]["ours"] = json!([value, "${cluster.facts.kubernetes.version}"]);
        let mut renderer = renderer(fields.clone(), "");
        let start = std::time::SystemTime::now();
        let ids: BTreeSet<_> = clusters
            .iter()
            .filter_map(|cluster| cluster.outcome(&mut renderer).spec_id().cloned())
            .collect();
        let time = start.elapsed().unwrap_or_default();
        assert_eq!(ids.len(), distinct);
        println!("{value}: {:?} per cluster, {distinct} specs", time / 10_000);
    };
    measure("${cluster.facts.cloud}", 1);
    measure("${cluster.id}", 10_000);
}
