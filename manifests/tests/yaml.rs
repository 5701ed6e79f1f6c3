//! Manifests are read as `kubectl` reads them.
//!
//! The expected objects are the output of kubectl 1.37.1: `tests/yaml/expected.sh KUBECTL` writes them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{fs, path::PathBuf};

use fairlead_manifests::yaml;
use serde_json::Value;

fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.is_file())
        .map(|it| (it.to_str().unwrap().to_owned(), fs::read(&it).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn objects_are_those_of_kubectl() {
    let mut checked = 0;
    for (file, content) in files("tests/yaml") {
        if file.ends_with(".expected.json") || file.ends_with(".sh") {
            continue;
        }
        let expected = fs::read_to_string(format!("{file}.expected.json")).unwrap();
        let expected: Vec<Value> = serde_json::Deserializer::from_str(&expected)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let manifests = yaml::parse(&file, &content).unwrap_or_else(|it| panic!("{it}"));
        let actual: Vec<_> = manifests.into_iter().map(|it| it.object).collect();
        assert_eq!(actual.len(), expected.len(), "{file}");
        for (actual, expected) in actual.iter().zip(&expected) {
            compare(&file, "", actual, expected);
        }
        checked += 1;
    }
    assert!(checked >= 13);
}

/// Compares field by field, so that a failure names the field.
fn compare(file: &str, path: &str, actual: &Value, expected: &Value) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            let keys = |it: &serde_json::Map<String, Value>| {
                let mut keys: Vec<_> = it.keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(actual), keys(expected), "{file}: keys of {path}");
            for (key, value) in actual {
                compare(file, &format!("{path}/{key}"), value, &expected[key]);
            }
        }
        (Value::Array(actual), Value::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "{file}: length of {path}");
            for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                compare(file, &format!("{path}/{index}"), actual, expected);
            }
        }
        // Go prints a float without fraction as a whole number of any length.
        (Value::Number(actual), Value::Number(expected)) if actual.is_f64() => {
            assert_eq!(actual.as_f64(), expected.as_f64(), "{file}: {path}");
            assert!(expected.as_i64().is_none(), "{file}: {path}");
        }
        _ => assert_eq!(actual, expected, "{file}: {path}"),
    }
}

#[test]
fn files_that_kubectl_refuses_are_refused() {
    for (file, content) in files("tests/yaml/refused") {
        let parsed = yaml::parse(&file, &content);
        assert!(parsed.is_err(), "{file}: {parsed:?}");
    }
}
