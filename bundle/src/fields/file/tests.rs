use fairlead_api::delivery::{DriftPolicy, Share, UntargetPolicy};
use serde_json::json;

use super::*;

/// The file of the delivery documents, with every field.
const WHOLE_FILE: &str = r#"
kind: manifests
namespace: shop
serviceAccount: deployer
vars: {replicas: 2}
patches: [{target: {kind: Deployment, name: web}, json: [{op: replace, path: /spec/replicas, value: "${vars.replicas}"}]}]
secrets: [{namespace: shop, name: db, key: password, as: vars.password}]
targets:  # first match wins
- {name: edge, selector: "site=edge", vars: {replicas: 1}, values: {}}
- {name: rest, selector: "env in (prod,stage)", groups: [], clusters: []}
rollout: {waves: [{name: canary, count: 1, soak: 2m}, {name: rest, maxUnavailable: 25%, maxFailures: 10%}]}
dependsOn: [b-crds]
drift: report
ignore: [{kind: Deployment, pointers: [/spec/replicas]}]
onUntarget: remove
prune: true
"#;

#[test]
fn whole_file_is_read() {
    let fields = parse_file(WHOLE_FILE, false).unwrap();
    assert_eq!(fields.kind, BundleKind::Manifests);
    assert_eq!(fields.vars["replicas"], json!(2));
    assert_eq!(fields.drift, DriftPolicy::Report);
    assert_eq!(fields.on_untarget, UntargetPolicy::Remove);
    let waves = &fields.rollout.as_ref().unwrap().waves;
    assert_eq!(waves[1].max_unavailable, Some(Share::Percent(25)));
    super::super::check_fields(&fields, false).unwrap();
}

#[test]
fn values_are_read_as_yaml_of_kubernetes() {
    let file = "helm:\n  values:\n    yes: [yes, on, y, No, TRUE, ~, 0o17, 1_000, .5, 1e3, 2024-01-01, 0x1f, 1:30, +1]\n    mode: 0644\n    text: \"0644\"\n    list: [1, two]\n    none: null\n";
    let fields = parse_file(file, true).unwrap();
    let values = json!(fields.helm.unwrap().values);
    assert_eq!(
        values,
        json!({
            "yes": [true, true, true, false, true, null, 15, 1000, 0.5, 1000.0, "2024-01-01", 31, "1:30", 1],
            "mode": 420, "text": "0644", "list": [1, "two"], "none": null
        })
    );
}

#[test]
fn kind_follows_the_folder() {
    use BundleKind::{Helm, Manifests};
    for (file, has_chart_file, kind) in [
        ("", false, Manifests),
        ("", true, Helm),
        ("# nothing\n", true, Helm),
        ("namespace: a", false, Manifests),
        ("namespace: a", true, Helm),
        ("kind: manifests", true, Manifests),
        ("kind: helm", false, Helm),
        ("chart: {oci: 'oci://a/b', version: '1'}", false, Helm),
    ] {
        let fields = parse_file(file, has_chart_file).unwrap();
        assert_eq!(fields.kind, kind, "{file:?} {has_chart_file}");
    }
}

#[test]
fn errors_have_line_and_name() {
    for (file, line, word) in [
        ("namespace: a\nnamespce: b\n", 2, "namespce"),
        ("targets:\n- name: a\n  selektor: b\n", 3, "selektor"),
        ("vars:\n  a: 1\n  b: 2\n  a: 3\n", 4, "a"),
        ("namespace: a\nkind: helm\nnamespace: b\n", 3, "namespace"),
        ("\n\nkind: chart\n", 3, "chart"),
        ("vars:\n  a: [1\nb: 2\n", 3, ""),
        ("targets:\n- selector: 'a=b=('\n", 2, "selector"),
        ("rollout:\n  waves:\n  - name: a\n    soak: 5\n", 4, ""),
        ("- a\n", 1, ""),
        ("text\n", 1, ""),
        ("namespace: a\n---\nnamespace: b\n", 3, ""),
    ] {
        match parse_file(file, false) {
            Err(FileError::Yaml { line: at, message }) => {
                assert_eq!(at, line, "{file:?}: {message}");
                assert!(message.contains(word), "{file:?}: {message}");
                assert!(!message.contains('\n'), "{message}");
            }
            other => panic!("{file:?}: {other:?}"),
        }
    }
    let long = format!("# {}", "x".repeat(MAX_FILE_BYTES));
    assert_eq!(parse_file(&long, false), Err(FileError::Length));
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut file = String::from("vars:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        file.push_str(&format!("  a{level}: &a{level} [{items}]\n"));
    }
    assert!(parse_file(&file, false).is_err());
}

#[test]
fn name_of_the_bundle_is_read_beside_the_options() {
    let (name, fields) =
        parse_named_file("namespace: shop\nname: store\nkind: helm\n", false).unwrap();
    assert_eq!(name.as_deref(), Some("store"));
    assert_eq!(
        (fields.namespace.as_deref(), fields.kind),
        (Some("shop"), BundleKind::Helm)
    );
    assert_eq!(parse_named_file("", true).unwrap().0, None);
    assert!(parse_named_file("name: [a]\n", false).is_err());
    assert!(
        parse_named_file("name: a\nname: b\n", false).is_err(),
        "a key is there twice"
    );
}
