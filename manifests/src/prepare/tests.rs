use super::*;
use crate::yaml;

fn scope_of(kind: &ObjectKind) -> Option<Scope> {
    match kind.kind.as_str() {
        "Thing" | "Other" => None,
        "ClusterRole"
        | "CustomResourceDefinition"
        | "ValidatingWebhookConfiguration"
        | "APIService" => Some(Scope::Cluster),
        _ => Some(Scope::Namespaced),
    }
}

const CONTEXT: BundleContext<'static> = BundleContext {
    bundle: "b-shop",
    generation: 7,
    namespace: "shop",
    patches: &[],
};

fn run(yaml: &str) -> Result<Vec<Value>, PrepareError> {
    let manifests = yaml::parse("a.yaml", yaml.as_bytes()).unwrap();
    let prepared = prepare(manifests, &CONTEXT, &scope_of)?;
    Ok(prepared.into_iter().map(|it| it.object).collect())
}

#[test]
fn namespace_label_and_annotation_are_set() {
    let objects = run(r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {app: x}, uid: u, resourceVersion: "1", managedFields: [], creationTimestamp: null}
status: {}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: other}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: a, namespace: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {metadata: {creationTimestamp: null, labels: {a: b}}}}
"#)
    .unwrap();
    assert_eq!(
        objects[0],
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "shop",
                "labels": {"app": "x", "fairlead/bundle": "b-shop"},
                "annotations": {"fairlead/generation": "7"},
            },
        })
    );
    assert_eq!(objects[1]["metadata"]["namespace"], "other");
    assert_eq!(objects[2]["metadata"].get("namespace"), None);
    assert_eq!(
        objects[3]["spec"]["template"]["metadata"],
        json!({"labels": {"a": "b"}})
    );
}

#[test]
fn kinds_of_the_bundle_are_known() {
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec: {group: example.org, names: {kind: Thing}, scope: Namespaced}
---
";
    let thing = "{apiVersion: example.org/v1, kind: Thing, metadata: {name: a}}";
    let objects = run(&format!("{definition}{thing}")).unwrap();
    assert_eq!(objects[1]["metadata"]["namespace"], "shop");
    let error = run(thing).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cluster has no kind Thing (example.org/v1)"
    );
}

#[test]
fn duplicates_are_refused_after_the_namespace_is_set() {
    let error = run(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}",
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Pod shop/a occurs twice: a.yaml, document 1, line 1; a.yaml, document 2, line 3"
    );
}

#[test]
fn patches_see_the_default_namespace() {
    let patches = [serde_json::from_value(
        json!({"target": {"namespace": "shop", "name": "a"}, "merge": {"data": {"a": "1"}}}),
    )
    .unwrap()];
    let manifests = yaml::parse(
        "a",
        b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
    )
    .unwrap();
    let context = BundleContext {
        patches: &patches,
        ..CONTEXT
    };
    let prepared = prepare(manifests, &context, &scope_of).unwrap();
    assert_eq!(prepared[0].object["data"], json!({"a": "1"}));
}

#[test]
fn string_data_becomes_data() {
    let objects = run(
        "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: YQ==, b: Yg==}, stringData: {b: x, c: ''}}",
    )
    .unwrap();
    assert_eq!(
        objects[0]["data"],
        json!({"a": "YQ==", "b": "eA==", "c": ""})
    );
    assert_eq!(objects[0].get("stringData"), None);
    let error = run("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: 1}}");
    assert!(matches!(
        error,
        Err(PrepareError::Field {
            field: ".stringData",
            ..
        })
    ));
}

#[test]
fn certificate_bundles_without_certificate_are_dropped() {
    let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t";
    let webhooks = |bundle: &str| {
        let objects = run(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {{name: a}}, webhooks: [{{clientConfig: {{caBundle: {bundle}}}}}]}}"
        ));
        objects.unwrap()[0]["webhooks"][0]["clientConfig"].clone()
    };
    for placeholder in ["''", "Cg==", "null", "CA_BUNDLE", "e30="] {
        assert_eq!(webhooks(placeholder), json!({}), "{placeholder}");
    }
    assert_eq!(webhooks(certificate), json!({"caBundle": certificate}));
    let objects = run(
        "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, spec: {caBundle: '', group: g}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {conversion: {webhook: {clientConfig: {caBundle: Cg==}}}}}",
    )
    .unwrap();
    assert_eq!(objects[0]["spec"], json!({"group": "g"}));
    assert_eq!(
        objects[1]["spec"]["conversion"]["webhook"]["clientConfig"],
        json!({})
    );
}

#[test]
fn wrong_types_are_named() {
    let error = run("{apiVersion: v1, kind: Pod, metadata: {name: a, labels: [a]}}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.yaml, document 1, line 1: .metadata.labels must be a map of strings"
    );
}
