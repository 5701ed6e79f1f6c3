use serde_json::json;

use super::*;

fn error(fields: Value) -> String {
    let fields: BundleFields = serde_json::from_value(fields).unwrap();
    let result = check_fields(&fields, fields.kind == BundleKind::Helm);
    result.map_or_else(|error| error.to_string(), |()| String::from("ok"))
}

/// Each row: fields, and the start of the expected sentence.
fn assert_refused(rows: &[(Value, &str)]) {
    for (fields, expected) in rows {
        let found = error(fields.clone());
        assert!(found.starts_with(expected), "{fields}: {found}");
    }
}

#[test]
fn problems_of_bundle_are_named() {
    assert_refused(&[
        (
            json!({"namespace": "Shop"}),
            "namespace: \"Shop\" is no name of a namespace",
        ),
        (
            json!({"serviceAccount": "a/b/c"}),
            "serviceAccount: \"a/b/c\" is no service account",
        ),
        (
            json!({"vars": {"a b": 1}}),
            "vars: \"a b\" is no name of a variable",
        ),
        (
            json!({"dependsOn": ["b-a", "b-a"]}),
            "dependsOn: \"b-a\" is there twice",
        ),
        (
            json!({"ignore": [{"pointers": []}]}),
            "ignore[0].pointers: the field is required",
        ),
        (
            json!({"ignore": [{"pointers": ["/a", ""]}]}),
            "ignore[0].pointers[1]: the field is required",
        ),
        (
            json!({"ignore": [{"pointers": ["spec"]}]}),
            "ignore[0].pointers[0]: \"spec\" is no JSON pointer",
        ),
        (
            json!({"ignore": [{"pointers": ["/a~2"]}]}),
            "ignore[0].pointers[0]: ",
        ),
        (
            json!({"timeout": "0s"}),
            "timeout: a number from 1 to 86400",
        ),
        (json!({"retries": 101}), "retries: a number from 0 to 100"),
    ]);
}

#[test]
fn problems_of_helm_are_named() {
    assert_refused(&[
        (json!({"helm": {}}), "helm: bundles of kind manifests"),
        (
            json!({"kind": "helm", "drift": "repair"}),
            "drift: repair is not for bundles of kind helm",
        ),
        (
            json!({"chart": {"version": "1"}}),
            "chart: bundles of kind manifests",
        ),
        (
            json!({"kind": "helm", "helm": {"release": "a_b"}}),
            "helm.release: ",
        ),
        (
            json!({"kind": "helm", "helm": {"timeout": "0s"}}),
            "helm.timeout: a number from 1",
        ),
        (
            json!({"kind": "helm", "helm": {"values": {"a": ["${vars.}"]}}}),
            "helm.values: ${vars.} is no variable",
        ),
        (
            json!({"kind": "helm", "helm": {"values": {"a": "${cluster.nmae}"}}}),
            "helm.values: ${cluster.nmae} is no",
        ),
        (
            json!({"kind": "helm", "helm": {"values": {"a": "${vars.a:-${vars.b}}"}}}),
            "helm.values: ${vars.a:-${vars.b} is no",
        ),
    ]);
}

#[test]
fn problems_of_patches_are_named() {
    let target = json!({"kind": "Deployment"});
    assert_refused(&[
        (
            json!({"kind": "helm", "patches": [{"target": target, "merge": {}}]}),
            "patches[0]: bundles of kind helm",
        ),
        (
            json!({"patches": [{"merge": {}}]}),
            "patches[0].target: the field is required",
        ),
        (
            json!({"patches": [{"target": target}]}),
            "patches[0]: exactly one of json and merge",
        ),
        (
            json!({"patches": [{"target": target, "json": [], "merge": {}}]}),
            "patches[0]: exactly one",
        ),
        (
            json!({"patches": [{"target": target, "json": []}]}),
            "patches[0].json: the field is required",
        ),
        (
            json!({"patches": [{"target": target, "json": [3]}]}),
            "patches[0].json[0]: an operation is a map",
        ),
        (
            json!({"patches": [{"target": target, "json": [{"op": "set", "path": "/a"}]}]}),
            "patches[0].json[0].op: one of",
        ),
        (
            json!({"patches": [{"target": target, "json": [{"op": "add", "path": "/a"}]}]}),
            "patches[0].json[0].value: the",
        ),
        (
            json!({"patches": [{"target": target, "json": [{"op": "move", "path": "/a"}]}]}),
            "patches[0].json[0].from: the",
        ),
        (
            json!({"patches": [{"target": target, "json": [{"op": "remove"}]}]}),
            "patches[0].json[0].path: the",
        ),
        (
            json!({"patches": [{"target": target, "json": [{"op": "remove", "path": "a"}]}]}),
            "patches[0].json[0].path: \"a\" is no JSON",
        ),
        (
            json!({"patches": [{"target": target, "json": [{"op": "remove", "path": "/a", "valeu": 1}]}]}),
            "patches[0].json[0].valeu: ",
        ),
        (
            json!({"patches": [{"target": target, "merge": []}]}),
            "patches[0].merge: a map",
        ),
        (
            json!({"secrets": [{"name": "s", "key": "k", "as": "vars.a"}],
                "patches": [{"target": target, "merge": {"a": "${vars.a}"}}]}),
            "patches[0]: vars.a is a Secret's",
        ),
    ]);
}

#[test]
fn problems_of_secrets_are_named() {
    assert_refused(&[
        (
            json!({"secrets": [{"name": "S", "key": "k", "as": "vars.a"}]}),
            "secrets[0].name: ",
        ),
        (
            json!({"secrets": [{"name": "s", "key": "k/k", "as": "vars.a"}]}),
            "secrets[0].key: ",
        ),
        (
            json!({"secrets": [{"namespace": "N", "name": "s", "key": "k", "as": "vars.a"}]}),
            "secrets[0].namespace: ",
        ),
        (
            json!({"secrets": [{"name": "s", "key": "k", "as": "file"}]}),
            "secrets[0].as: \"file\" is neither",
        ),
        (
            json!({"secrets": [{"name": "s", "key": "k", "as": "vars."}]}),
            "secrets[0].as: \"vars.\" is neither",
        ),
        (
            json!({"secrets": [{"name": "s", "key": "k", "as": "values.a"}]}),
            "secrets[0].as: bundles of kind manifests",
        ),
        (
            json!({"kind": "helm", "secrets": [{"name": "s", "key": "k", "as": "values.a..b"}]}),
            "secrets[0].as: ",
        ),
        (
            json!({"kind": "helm", "secrets": [{"name": "s", "key": "k", "as": "vars.a"}]}),
            "secrets[0].as: bundles of kind helm",
        ),
        (
            json!({"vars": {"a": 1}, "secrets": [{"name": "s", "key": "k", "as": "vars.a"}]}),
            "secrets[0].as: \"vars.a\" is there",
        ),
        (
            json!({"secrets": [{"name": "s", "key": "k", "as": "vars.a"}, {"name": "t", "key": "k", "as": "vars.a"}]}),
            "secrets: \"vars.a\" is there",
        ),
    ]);
}

#[test]
fn problems_of_targets_are_named() {
    let target = json!({"kind": "Deployment"});
    assert_refused(&[
        (json!({"targets": [{}]}), "targets[0]: a target needs"),
        (
            json!({"targets": [{"selector": ""}, {"skip": true}]}),
            "targets[1]: a target needs",
        ),
        (
            json!({"targets": [{"name": "a", "selector": ""}, {"name": "a", "selector": ""}]}),
            "targets: \"a\" is there twice",
        ),
        (
            json!({"targets": [{"name": " ", "selector": ""}]}),
            "targets[0].name: the field is required",
        ),
        (
            json!({"targets": [{"selector": "", "namespace": "a.b"}]}),
            "targets[0].namespace: ",
        ),
        (
            json!({"targets": [{"selector": "", "vars": {"": 1}}]}),
            "targets[0].vars: ",
        ),
        (
            json!({"targets": [{"selector": "", "vars": {"a": 1}}], "secrets": [{"name": "s", "key": "k", "as": "vars.a"}]}),
            "targets[0].vars: \"vars.a\" is there",
        ),
        (
            json!({"targets": [{"selector": "", "values": {"a": 1}}]}),
            "targets[0].values: bundles of kind manifests",
        ),
        (
            json!({"targets": [{"selector": "", "patches": [{"target": target}]}]}),
            "targets[0].patches[0]: exactly one",
        ),
    ]);
}

#[test]
fn problems_of_waves_are_named() {
    assert_refused(&[
        (
            json!({"rollout": {"waves": [{"name": ""}]}}),
            "rollout.waves[0].name: the field is required",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a", "count": 1}, {"name": "a"}]}}),
            "rollout.waves: \"a\" is there",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a", "count": 1, "percent": 2}]}}),
            "rollout.waves[0]: at most one",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a", "groups": ["g-a"], "percent": 2}]}}),
            "rollout.waves[0]: at most one",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a", "count": 0}]}}),
            "rollout.waves[0].count: a number from 1",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a", "percent": 101}]}}),
            "rollout.waves[0].percent: a number from 1 to 100",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a", "maxUnavailable": "0%"}]}}),
            "rollout.waves[0].maxUnavailable: ",
        ),
        (
            json!({"rollout": {"waves": [{"name": "a"}, {"name": "b", "count": 1}]}}),
            "rollout.waves[1]: an earlier wave",
        ),
    ]);
}

#[test]
fn valid_fields_pass() {
    let target = json!({"kind": "Deployment"});
    for fields in [
        json!({}),
        json!({"patches": [{"target": target, "json": [
            {"op": "remove", "path": ""},
            {"op": "copy", "from": "/a~1b", "path": "/c~0"},
            {"op": "test", "path": "/a", "value": null},
        ]}]}),
        json!({"targets": [{"selector": ""}, {"groups": ["g-a"]}, {"clusters": ["c-a"], "skip": true}]}),
        json!({"rollout": {"waves": [{"name": "a", "selector": "a=b", "groups": ["g-a"], "maxFailures": 0}, {"name": "b"}]}}),
        json!({"kind": "helm", "helm": {"values": {"a": "${HOME} $${vars.} ${vars.a:-b} ${x:-${vars.a}}"}}}),
        json!({"kind": "helm", "secrets": [{"name": "s", "key": "k", "as": "values.db.password"}]}),
    ] {
        assert_eq!(error(fields.clone()), "ok", "{fields}");
    }
}

#[test]
fn a_chart_comes_from_one_place() {
    for (chart, expected) in [
        (
            json!({"version": "1"}),
            "chart: exactly one of repository and oci",
        ),
        (
            json!({"repository": "https://a", "oci": "oci://a", "version": "1"}),
            "chart: exactly one",
        ),
        (
            json!({"repository": "https://a", "version": "1"}),
            "chart.name: the field is required",
        ),
        (
            json!({"repository": "ftp://a", "name": "b", "version": "1"}),
            "chart.repository: a URL",
        ),
        (
            json!({"repository": "https://u:p@a", "name": "b", "version": "1"}),
            "chart.repository: the URL must have neither",
        ),
        (
            json!({"repository": "https://a", "name": "b", "version": ""}),
            "chart.version: the field",
        ),
        (
            json!({"repository": "https://a/p@q", "name": "b", "version": "1"}),
            "ok",
        ),
        (json!({"oci": "oci://a/b", "version": "1"}), "ok"),
        (
            json!({"oci": "https://a/b", "version": "1"}),
            "chart.oci: a URL",
        ),
        (
            json!({"oci": "oci://a/b", "name": "b", "version": "1"}),
            "chart.name: at most one",
        ),
    ] {
        let text = chart.to_string();
        let fields = serde_json::from_value(json!({"kind": "helm", "chart": chart})).unwrap();
        let found = check_fields(&fields, false);
        let found = found.map_or_else(|error| error.to_string(), |()| String::from("ok"));
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let fields = BundleFields {
        kind: BundleKind::Helm,
        ..BundleFields::default()
    };
    let error = check_fields(&fields, false).unwrap_err();
    assert_eq!(error.problem, Problem::NoChart);
    let chart = json!({"kind": "helm", "chart": {"oci": "oci://a/b", "version": "1"}});
    let error = check_fields(&serde_json::from_value(chart).unwrap(), true).unwrap_err();
    assert_eq!(error.problem, Problem::TwoCharts);
}

#[test]
fn a_bundle_is_checked_with_its_id() {
    let bundle = |id: &str, fields: Value| {
        let mut bundle = json!({"id": id, "tenant": "t-a"});
        let (Value::Object(all), Value::Object(fields)) = (&mut bundle, fields) else {
            panic!("records are maps");
        };
        all.extend(fields);
        check_bundle(&serde_json::from_value(bundle).unwrap(), true)
    };
    let error = bundle("b-a", json!({"kind": "helm", "dependsOn": ["b-c", "b-a"]})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dependsOn[1]: a bundle cannot depend on itself"
    );
    let long = format!("b-{}", "a".repeat(54));
    let error = bundle(&long, json!({"kind": "helm"})).unwrap_err();
    assert_eq!(error.field, "helm.release");
    bundle(&long, json!({"kind": "helm", "helm": {"release": "a"}})).unwrap();
    bundle(&long, json!({"kind": "manifests"})).unwrap();
}

#[test]
fn all_wrong_fields_are_found_at_once() {
    let fields = json!({
        "namespace": "Shop",
        "helm": {"release": "shop"},
        "targets": [{}, {"clusters": ["c-a"]}, {"selector": "a=b", "namespace": "-"}],
        "rollout": {"waves": [{"name": ""}, {"name": "x", "percent": 0}]},
        "dependsOn": ["b-a"],
        "retries": 1000,
    });
    let fields = serde_json::from_value(fields).unwrap();
    let errors = errors_of_bundle(&"b-a".parse().unwrap(), &fields, false);
    let found: Vec<_> = errors.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(
        found,
        [
            "namespace",
            "helm",
            "targets[0]",
            "targets[2].namespace",
            "rollout.waves[0].name",
            "rollout.waves[1]",
            "rollout.waves[1].percent",
            "retries",
            "dependsOn[0]",
        ]
    );
}
