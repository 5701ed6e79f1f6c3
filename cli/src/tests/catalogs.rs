//! Catalogs of clusters.

use super::{hub::TestHub, views::fleet};

#[test]
fn printed_catalog_can_be_applied_and_unused_settings_are_noted() {
    let hub = TestHub::start();
    let id = hub.json(&["cluster", "create", "demo"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let objects = hub.file("objects.yaml", objects);
    let set = hub.run(&["cluster", "catalog", "set", &id, "-f", &objects]);
    assert!(set.stderr.contains("--deliver-catalog"), "{set:?}");
    set.success();
    let get = ["cluster", "catalog", "get", &id, "-o", "yaml"];
    let shown = hub.run(&get).success();
    let path = hub.file("catalog.yaml", &shown);
    hub.run(&["cluster", "catalog", "set", &id, "-f", &path])
        .success();
    assert!(hub.run(&get).success() == shown, "{shown}");
    let version = ["cluster", "agent", "set", &id, "--agent-version", "1.2.3"];
    let set = hub.run(&version);
    assert!(
        set.stderr
            .contains("`fairlead agent upgrade` changes agents"),
        "{set:?}"
    );
    let every = ["cluster", "agent", "set", &id, "--facts-every", "10m"];
    assert!(hub.run(&every).stderr.is_empty());
}

#[test]
fn catalog_of_another_cluster_is_replaced_only_with_consent() {
    let hub = fleet();
    let objects = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n\
        {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a}}\n";
    let objects = hub.file("objects.yaml", objects);
    let set = ["cluster", "catalog", "set", "Edge", "-f", &objects];
    let first = hub.said(&set);
    assert!(first.ends_with("\nversion: 1\n"), "{first}");
    let names = hub.said(&["cluster", "catalog", "get", "Edge", "-o", "name"]);
    assert!(names == "Namespace/a\nConfigMap/a/c\n", "{names}");
    let same = hub.said(&set);
    assert!(same.ends_with("\nversion: 1\n"), "{same}");
    let fewer = "{apiVersion: v1, kind: Namespace, metadata: {name: b}}\n";
    let fewer = hub.file("fewer.yaml", fewer);
    let set = ["cluster", "catalog", "set", "Edge", "-f", &fewer];
    let unasked = hub.run(&set);
    assert!(unasked.stderr.ends_with("code:  FL-4118\n"), "{unasked:?}");
    let again = hub.said(&[&set[..], &["--yes"]].concat());
    assert!(again.ends_with("\nversion: 2\n"), "{again}");
    let bad = hub.file("bad.yaml", "{kind: ConfigMap}\n");
    let bad = ["cluster", "catalog", "set", "Edge", "-f", &bad, "--yes"];
    let bad = hub.run(&bad);
    assert!(
        bad.stderr.contains("objects[0] has no apiVersion"),
        "{bad:?}"
    );
}
