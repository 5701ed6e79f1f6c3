use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scalar(text: &str) -> Value {
    let yaml = format!("{{v: {text}}}");
    let mut documents = values("a.yaml", yaml.as_bytes()).unwrap_or_else(|it| panic!("{it}"));
    documents.remove(0).0["v"].take()
}

#[test]
fn scalars_follow_yaml_1_1() {
    for (text, value) in [
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("-0644", json!(-420)),
        ("08", json!(8)),
        ("0", json!(0)),
        ("1_000", json!(1000)),
        ("0x1f", json!(31)),
        ("0X1F", json!(31)),
        ("0b101", json!(5)),
        ("-0b101", json!(-5)),
        ("0b+1", json!(1)),
        ("0b", json!("0b")),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("1.5", json!(1.5)),
        ("+1", json!(1)),
        (".5", json!(0.5)),
        ("1.", json!(1)),
        ("-0.0", json!(0)),
        ("1e999", json!("1e999")),
        (".5_0", json!(0.5)),
        (".5_", json!(".5_")),
        (".5__0", json!(".5__0")),
        ("9223372036854775808", json!(9_223_372_036_854_775_808_f64)),
        ("1e21", json!(1e21)),
        ("yes", json!(true)),
        ("off", json!(false)),
        ("y", json!(true)),
        ("oN", json!("oN")),
        ("~", json!(null)),
        ("null", json!(null)),
        ("nUll", json!("nUll")),
        ("2001-01-01", json!("2001-01-01")),
        ("12:30:45", json!("12:30:45")),
        ("!!str 0644", json!("0644")),
        ("!!int \"7\"", json!(7)),
        ("!!float 1", json!(1)),
        ("!!binary aGk=", json!("hi")),
        ("!custom 1", json!("1")),
        ("'yes'", json!("yes")),
        ("1.2.3", json!("1.2.3")),
    ] {
        assert_eq!(scalar(text), value, "{text}");
    }
}

fn problem(yaml: &str) -> Problem {
    parse("a.yaml", yaml.as_bytes()).unwrap_err().problem
}

#[test]
fn problems_are_refused() {
    assert_eq!(problem("a: .inf"), Problem::NoJson(".inf".into()));
    assert_eq!(problem("a: 1\na: 2"), Problem::DuplicateKey("a".into()));
    assert_eq!(
        problem("{\"a\": 1, \"a\": 2}"),
        Problem::DuplicateKey("a".into())
    );
    assert_eq!(
        problem("on: 1\nyes: 2"),
        Problem::DuplicateKey("true".into())
    );
    assert_eq!(problem("a: &a [*a]"), Problem::Cycle);
    assert_eq!(problem("~: 1"), Problem::Key);
    assert_eq!(problem("? [a]\n: 1"), Problem::Key);
    assert_eq!(problem("<<: 1"), Problem::Merge);
    assert_eq!(problem("- a"), Problem::NoMap);
    assert_eq!(problem("kind: A"), Problem::Missing("apiVersion"));
    assert_eq!(
        problem("apiVersion: v1\nkind: A\nmetadata: {name: 12}"),
        Problem::Missing("metadata.name")
    );
    assert_eq!(
        problem("apiVersion: v1\nkind: A\nmetadata: {generateName: a-}"),
        Problem::GeneratedName
    );
    assert!(matches!(problem("a: 1\n...\nb: 2\n"), Problem::Syntax(_)));
    assert!(matches!(problem("--- {a: 1}\n"), Problem::Syntax(_)));
    assert!(matches!(problem("a:\n\t- b\n"), Problem::Syntax(_)));
    assert!(matches!(problem("!!int x"), Problem::Tag { .. }));
    assert!(parse("a", b"\xff").is_err());
}

#[test]
fn error_names_file_document_and_line() {
    let yaml = "# first\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\r\n\r\na: 1\r\nb: 2\r\na: 3\r\n";
    let error = parse("apps/a.yaml", yaml.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "apps/a.yaml, document 3, line 10: key \"a\" occurs twice"
    );
}

#[test]
fn merge_keys_keep_the_order_of_the_document() {
    let yaml = "base: &b {a: 1, b: 2}\nx: {a: 0, <<: *b}\nw: {<<: *b, a: 3}\nz: {<<: [{a: 5}, *b]}\nq: {'<<': 1}\n";
    let (value, _) = values("a", yaml.as_bytes()).unwrap().remove(0);
    assert_eq!(value["x"], json!({"a": 1, "b": 2}));
    assert_eq!(value["w"], json!({"a": 3, "b": 2}));
    assert_eq!(value["z"], json!({"a": 5, "b": 2}));
    assert_eq!(value["q"], json!({"<<": 1}));
}

#[test]
fn aliases_cannot_fill_the_memory() {
    let mut yaml = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        yaml.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(matches!(problem(&yaml), Problem::Aliases(_)));
    let long = "x".repeat(1 << 20);
    let aliases = "  - *a\n".repeat(20);
    assert!(matches!(
        problem(&format!("a: &a {long}\nb:\n{aliases}")),
        Problem::Aliases(_)
    ));
}

#[test]
fn anchors_in_anchors_cannot_fill_the_memory() {
    let anchors: String = (0..200).map(|at| format!("&a{at} [")).collect();
    let yaml = format!("a: {anchors}{}{}", "x".repeat(1 << 20), "]".repeat(200));
    assert!(matches!(problem(&yaml), Problem::Aliases(_)));
}

#[test]
fn lists_are_opened() {
    let yaml = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}}]},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}
    ]}
    {"apiVersion": "v1", "kind": "PodList", "items": null}"#;
    let manifests = parse("a.json", yaml.as_bytes()).unwrap();
    let kinds: Vec<_> = manifests
        .iter()
        .map(|it| it.object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"]);
}

#[test]
fn empty_documents_are_dropped() {
    for yaml in [
        "",
        "\n",
        "# a\n",
        "---\n---\n# b\n---\nnull\n---\n",
        "\u{feff}# a\n",
        "...\n",
    ] {
        assert_eq!(parse("a.yaml", yaml.as_bytes()), Ok(vec![]), "{yaml:?}");
    }
}

#[test]
fn number_of_objects_is_limited() {
    let item = "{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"a\"}}\n";
    assert_eq!(
        parse("a", item.repeat(MAX_OBJECTS).as_bytes())
            .unwrap()
            .len(),
        MAX_OBJECTS
    );
    assert_eq!(problem(&item.repeat(MAX_OBJECTS + 1)), Problem::TooMany);
}

#[test]
fn manifests_are_told_by_their_path() {
    for (path, expected) in [
        ("a.yaml", true),
        ("b/c.json", true),
        ("fairlead.yaml", false),
        ("README.md", false),
        (".github/a.yml", false),
        ("a/.hidden.yaml", false),
    ] {
        assert_eq!(is_manifest(path), expected, "{path}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse("a", &bytes);
    }

    #[test]
    fn objects_are_the_same_when_read_as_json(text in "[-a-z0-9:{}\\[\\]!>'\"%.+_#,? \n\t\u{85}\u{2028}é]{0,40}") {
        let yaml = format!("{{apiVersion: v1, kind: A, metadata: {{name: a}}, x: [{text}\n]}}");
        if let Ok(manifests) = parse("a.yaml", yaml.as_bytes()) {
            let json = manifests[0].object.to_string();
            let again = parse("a.json", json.as_bytes()).unwrap();
            prop_assert_eq!(&again[0].object, &manifests[0].object);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-a-z0-9:{}\\[\\]&*!|>'\"%@`#,? \n\t]{0,80}") {
        let _ = parse("a", text.as_bytes());
    }
}
