use fairlead_api::BundleId;
use serde_json::json;

use super::*;
use crate::drift::tests::{FakeCluster, refused, resource};

const OWNER: &str = "fairlead/b-shop";

fn map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": name, "labels": {"fairlead/bundle": "b-shop"}, "annotations": {"fairlead/generation": "7"}},
        "data": data,
    })
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/shop/configmaps/{name}")
}

fn object(manifest: Value) -> DiffObject {
    let resource = match manifest["kind"].as_str().unwrap() {
        "Secret" => resource("", "Secret", "secrets"),
        _ => resource("", "ConfigMap", "configmaps"),
    };
    DiffObject {
        key: ObjectKey::of(&manifest).unwrap(),
        resource: Some(resource),
        manifest,
    }
}

async fn diff_of(
    cluster: &FakeCluster,
    objects: Vec<DiffObject>,
    removed: &[&str],
    masker: Option<&Masker>,
) -> DiffReport {
    let bundle: BundleId = "b-shop".parse().unwrap();
    let removed = removed.iter().map(|name| {
        let key = ObjectKey::of(&map(name, json!({}))).unwrap();
        (key, resource("", "ConfigMap", "configmaps"))
    });
    let input = DiffInput {
        objects,
        removed: removed.collect(),
        owner: DeliveryOwner::Bundle(bundle),
        ignore: &[],
        user: "system:serviceaccount:fairlead-delivery:deployer",
        masker,
    };
    diff(cluster, &input).await.unwrap()
}

#[tokio::test]
async fn new_changed_deleted_and_same_objects_are_counted_and_shown() {
    let cluster = FakeCluster::default();
    for name in ["same", "changed", "gone"] {
        cluster.apply_now(&path(name), OWNER, &map(name, json!({"a": "1", "b": "2"})));
    }
    cluster.edit(&path("same"), "injector", |it| it["data"]["x"] = json!("1"));
    cluster.take_requests();
    let mut same = map("same", json!({"a": "1", "b": "2"}));
    // Another generation alone is no change.
    same["metadata"]["annotations"]["fairlead/generation"] = json!("8");
    let objects = vec![
        object(same),
        object(map("changed", json!({"a": "9", "b": "2"}))),
        object(map("new", json!({"a": "1"}))),
    ];
    let report = diff_of(&cluster, objects, &["gone"], None).await;
    assert_eq!(
        (report.new, report.changed, report.deleted, report.same),
        (1, 1, 1, 1)
    );
    let text = &report.text;
    assert!(
        text.contains(
            "--- ConfigMap shop/changed (cluster)\n+++ ConfigMap shop/changed (bundle)\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("-  a: \"1\"\n+  a: \"9\"\n   b: \"2\"\n"),
        "{text}"
    );
    assert!(
        text.contains("--- /dev/null\n+++ ConfigMap shop/new (bundle)\n"),
        "{text}"
    );
    assert!(
        text.contains("--- ConfigMap shop/gone (cluster)\n+++ /dev/null\n"),
        "{text}"
    );
    assert!(
        text.contains("# beside: injector sets .data.x of ConfigMap shop/same\n"),
        "{text}"
    );
    assert!(
        text.ends_with("1 new, 1 changed, 1 deleted, 1 same\n"),
        "{text}"
    );
    assert!(
        !text.contains("managedFields") && !text.contains("resourceVersion"),
        "{text}"
    );
    let requests = cluster.take_requests();
    assert!(
        requests
            .iter()
            .all(|it| it.starts_with("get") || it.starts_with("dry-run")),
        "{requests:?}"
    );
}

#[tokio::test]
async fn secrets_show_keys_and_masked_values_nowhere() {
    let secret = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "db"},
            "data": {"password": value, "user": "c2hvcA=="},
        })
    };
    let cluster = FakeCluster::default();
    cluster.apply_now(
        "/api/v1/namespaces/shop/secrets/db",
        OWNER,
        &secret("b2xkLXBhc3N3b3Jk"),
    );
    let masker = Masker::new(["new-password"]).unwrap();
    let objects = vec![
        object(secret("bmV3LXBhc3N3b3Jk")),
        object(map("leak", json!({"a": "it is new-password!"}))),
    ];
    let report = diff_of(&cluster, objects, &[], Some(&masker)).await;
    let text = &report.text;
    assert_eq!((report.new, report.changed), (1, 1));
    assert!(
        text.contains("-  password: (hidden)\n+  password: (hidden, changed)\n"),
        "{text}"
    );
    assert!(text.contains("it is ***!"), "{text}");
    for value in [
        "new-password",
        "b2xkLXBhc3N3b3Jk",
        "bmV3LXBhc3N3b3Jk",
        "c2hvcA",
    ] {
        assert!(!text.contains(value), "{text}");
    }
}

#[tokio::test]
async fn refused_objects_are_part_of_the_report() {
    let cluster = FakeCluster::default();
    cluster.set_fault(|verb, _| (verb == "dry-run").then(|| refused(422, "Invalid value")));
    let report = diff_of(&cluster, vec![object(map("a", json!({})))], &[], None).await;
    assert_eq!(report.refused.len(), 1);
    assert!(
        report.text.contains("! ConfigMap shop/a "),
        "{}",
        report.text
    );
    assert!(report.text.ends_with(", 1 refused\n"), "{}", report.text);
}

#[tokio::test]
async fn objects_of_a_new_namespace_and_of_new_kinds_are_new() {
    let cluster = FakeCluster::default();
    cluster.set_fault(|verb, path| {
        (verb == "dry-run" && path.contains("/namespaces/shop/"))
            .then(|| refused(404, "no namespace"))
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let namespaces = Arc::new(ApiResource {
        scope: fairlead_manifests::Scope::Cluster,
        ..(*resource("", "Namespace", "namespaces")).clone()
    });
    let mut objects = vec![DiffObject {
        key: ObjectKey::of(&namespace).unwrap(),
        resource: Some(namespaces),
        manifest: namespace,
    }];
    objects.push(object(map("a", json!({}))));
    objects.push(DiffObject {
        resource: None,
        ..object(map("b", json!({})))
    });
    let report = diff_of(&cluster, objects, &[], None).await;
    assert_eq!(
        (report.new, report.refused.len()),
        (3, 0),
        "{}",
        report.text
    );
}

#[tokio::test]
async fn text_is_bounded_and_keeps_its_numbers() {
    let cluster = FakeCluster::default();
    let objects: Vec<_> = (0..40)
        .map(|at| {
            object(map(
                &format!("m{at}"),
                json!({"a": format!("{}\n", "x".repeat(99)).repeat(400)}),
            ))
        })
        .collect();
    let report = diff_of(&cluster, objects, &[], None).await;
    assert_eq!(report.new, 40);
    assert!(report.text.len() <= MAX_DIFF_BYTES, "{}", report.text.len());
    assert!(report.text.contains("the rest is left out"));
    assert!(
        report
            .text
            .ends_with("40 new, 0 changed, 0 deleted, 0 same\n")
    );
    // One object that is too large to compare.
    let objects = vec![object(map("huge", json!({"a": "y".repeat(600 * 1024)})))];
    let report = diff_of(&cluster, objects, &[], None).await;
    assert!(
        report.text.contains("too large to show"),
        "{}",
        report.text.len()
    );
}
