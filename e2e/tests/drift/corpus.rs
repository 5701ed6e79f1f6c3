//! The corpus of YAML files, read by the real `kubectl apply`. The tests of `fairlead-manifests` compare our parser with the
//! same expected files.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::world::World;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Go prints one number in several ways, and `kubectl apply` leaves out null.
fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => *value = json!(number.as_f64()),
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(normalize);
        }
        _ => {}
    }
}

/// The object without the additions of `kubectl apply`.
fn plain(mut object: Value) -> Value {
    normalize(&mut object);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.entry("namespace").or_insert(json!("default"));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
        if metadata.get("annotations") == Some(&json!({})) {
            metadata.remove("annotations");
        }
    }
    object
}

fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut objects = Vec::new();
    for document in documents {
        let mut document = document?;
        match document["items"].take() {
            Value::Array(items) => objects.extend(items),
            items => {
                if !items.is_null() {
                    document["items"] = items;
                } else if let Some(map) = document.as_object_mut() {
                    map.remove("items");
                }
                objects.push(document);
            }
        }
    }
    Ok(objects.into_iter().map(plain).collect())
}

#[tokio::test]
async fn corpus_is_read_as_by_kubectl_apply() -> anyhow::Result<()> {
    let world = World::start().await?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/tests/yaml");
    let mut compared = 0;
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.to_str().context("path")?;
        if !path.is_file() || name.ends_with(".expected.json") || name.ends_with(".sh") {
            continue;
        }
        let args = [
            "apply",
            "--dry-run=client",
            "--validate=false",
            "-o",
            "json",
            "-f",
            name,
        ];
        let output = world.cluster.kubectl().args(args).run().await?;
        // A kind without a definition is unknown to `apply`.
        if output.stderr.contains("no matches for kind") {
            continue;
        }
        let read = objects(&output.success()?)?;
        let expected = objects(&fs::read_to_string(format!("{name}.expected.json"))?)?;
        for (read, expected) in read.iter().zip(&expected) {
            for (field, value) in expected.as_object().into_iter().flatten() {
                ensure!(
                    read[field] == *value,
                    "{name}: {field} is {} instead of {value}",
                    read[field]
                );
            }
        }
        ensure!(read == expected, "{name}: {read:?} instead of {expected:?}");
        compared += 1;
    }
    ensure!(compared >= 11, "{compared} files");
    let mut refused = 0;
    for entry in fs::read_dir(folder.join("refused"))? {
        let path = entry?.path();
        let name = path.to_str().context("path")?;
        let args = ["apply", "--dry-run=client", "--validate=false", "-f", name];
        let output = world.cluster.kubectl().args(args).run().await?;
        ensure!(!output.status.success(), "kubectl accepts {name}");
        refused += 1;
    }
    ensure!(refused > 20, "{refused} files");
    Ok(())
}
