use fairlead_bundle::folder::FileEntry;
use serde_json::json;

use super::*;

fn folder(files: &[(&str, &[u8])]) -> Folder {
    let entry = |(path, content): &(&str, &[u8])| FileEntry {
        path: (*path).to_owned(),
        mode: 0o100_644,
        content: content.to_vec(),
    };
    Folder::from_files(files.iter().map(entry)).unwrap()
}

fn definition(name: &str) -> Vec<u8> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
    });
    definition.to_string().into_bytes()
}

fn names(chart: &Chart) -> Vec<String> {
    let names = chart.definitions.iter();
    names
        .map(|it| it.object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

fn paths(chart: &Chart) -> Vec<&str> {
    chart.files.iter().map(|it| it.path.as_str()).collect()
}

#[test]
fn chart_lies_in_the_root_in_its_only_folder_or_packed() {
    let chart = b"{apiVersion: v2, name: web, version: 1.0.0}";
    let boats = definition("boats.example.com");
    let root = folder(&[
        ("Chart.yaml", chart),
        ("fairlead.yaml", b"kind: helm"),
        ("crds/a.yaml", &boats),
        ("crds/README.md", b"text"),
        ("sub/Chart.yaml", chart),
    ]);
    let found = Chart::of(&root, &json!({})).unwrap();
    assert_eq!(found.path.as_str(), "chart");
    assert_eq!(
        paths(&found),
        [
            "chart/Chart.yaml",
            "chart/crds/README.md",
            "chart/crds/a.yaml",
            "chart/sub/Chart.yaml"
        ]
    );
    assert_eq!(names(&found), ["boats.example.com"]);

    let inner = folder(&[
        ("web/Chart.yaml", chart),
        ("web/crds/a.json", &boats),
        ("README", b""),
    ]);
    let found = Chart::of(&inner, &json!({})).unwrap();
    assert_eq!(paths(&found), ["chart/Chart.yaml", "chart/crds/a.json"]);

    let archive = inner.pack().unwrap();
    let packed = folder(&[
        ("web-1.0.0.tgz", &archive.packed),
        ("fairlead.yaml", b"kind: helm"),
    ]);
    // An archive of a chart has one folder; this one has a file beside it.
    let only = folder(&[("web/Chart.yaml", chart), ("web/crds/a.json", &boats)])
        .pack()
        .unwrap();
    let found = Chart::of(&packed, &json!({})).unwrap();
    assert_eq!(paths(&found), ["chart.tgz"]);
    let found = Chart::of(&folder(&[("w.tgz", &only.packed)]), &json!({})).unwrap();
    assert_eq!(
        (found.path.as_str(), names(&found)),
        ("chart.tgz", vec!["boats.example.com".to_owned()])
    );

    let two = folder(&[("a/Chart.yaml", chart), ("b/Chart.yaml", chart)]);
    for bad in [two, folder(&[("a.yaml", b"a: 1")])] {
        assert!(matches!(
            Chart::of(&bad, &json!({})),
            Err(ChartError::Missing)
        ));
    }
}

#[test]
fn definitions_of_enabled_dependencies_only() {
    let chart = b"apiVersion: v2
name: web
version: 1.0.0
dependencies:
- {name: db, version: 1.0.0, condition: 'db.enabled,global.db'}
- {name: cache, version: 1.0.0, tags: [fast, back]}
";
    let packed = folder(&[
        ("queue/Chart.yaml", b"{name: queue, version: 1.0.0}"),
        ("queue/crds/q.yaml", &definition("queues.example.com")),
    ]);
    let packed = packed.pack().unwrap();
    let dependencies = folder(&[
        ("Chart.yaml", chart),
        (
            "values.yaml",
            b"{db: {enabled: false}, tags: {back: false}}",
        ),
        ("charts/db/Chart.yaml", b"{name: db, version: 1.0.0}"),
        ("charts/db/crds/d.yaml", &definition("dbs.example.com")),
        ("charts/cache/Chart.yaml", b"{name: cache, version: 1.0.0}"),
        (
            "charts/cache/crds/c.yaml",
            &definition("caches.example.com"),
        ),
        ("charts/queue-1.0.0.tgz", &packed.packed),
        ("charts/_old/crds/o.yaml", &definition("old.example.com")),
    ]);
    let of = |values: Value| names(&Chart::of(&dependencies, &values).unwrap());
    assert_eq!(of(json!({})), ["queues.example.com"]);
    assert_eq!(
        of(json!({"db": {"enabled": true}})),
        ["dbs.example.com", "queues.example.com"]
    );
    assert_eq!(
        of(json!({"tags": {"fast": true}})),
        ["caches.example.com", "queues.example.com"]
    );
}
