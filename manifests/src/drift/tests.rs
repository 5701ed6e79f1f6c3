mod beside;
mod edits;
mod ownership;

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::ObjectKey;

const LABEL: (&str, &str) = (crate::BUNDLE_LABEL, "b-shop");
const TIME: &str = "2026-11-23T10:00:00Z";
const LATER: &str = "2026-11-23T10:05:00Z";
const LONG_AFTER: Duration = Duration::from_secs(300);

fn owner() -> FieldOwner {
    FieldOwner::of_bundle("b-shop")
}

/// Answer to an apply of a Deployment: keyed lists, an atomic list, maps, defaults.
fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "10", "generation": 1,
            "labels": {"app": "web", "fairlead/bundle": "b-shop"},
            "managedFields": [{
                "manager": "fairlead/b-shop", "operation": "Apply", "apiVersion": "apps/v1", "time": TIME,
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}, "f:fairlead/bundle": {}}},
                    "f:spec": {
                        "f:replicas": {}, "f:selector": {},
                        "f:template": {"f:spec": {
                            "f:containers": {"k:{\"name\":\"web\"}": {
                                ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                                "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}},
                                          "k:{\"name\":\"B\"}": {".": {}, "f:name": {}, "f:value": {}}},
                                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                            }},
                            "f:nodeSelector": {}, "f:tolerations": {},
                        }},
                    },
                },
            }],
        },
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 10,
            "template": {"spec": {
                "containers": [{
                    "name": "web", "image": "web:1", "args": ["a"], "imagePullPolicy": "Always",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                }],
                "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a"}],
            }},
        },
    })
}

/// Answer to an apply of a ConfigMap, a kind without generation.
fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u2", "resourceVersion": "20",
            "labels": {"fairlead/bundle": "b-shop"},
            "managedFields": [{
                "manager": "fairlead/b-shop", "operation": "Apply", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {"f:fairlead/bundle": {}}}, "f:data": {"f:a": {}, "f:b": {}}},
            }],
        },
        "data": {"a": "1", "b": "2"},
    })
}

/// A JSON pointer of the first container.
const CONTAINER: &str = "/spec/template/spec/containers/0";

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[paths::unescape(name)] = value;
}

fn remove(object: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    if let Value::Array(items) = parent {
        items.remove(name.parse().unwrap());
    } else {
        parent
            .as_object_mut()
            .unwrap()
            .remove(&paths::unescape(name))
            .unwrap();
    }
}

/// Takes paths from our entry, as the API server does when others change or remove these fields.
fn disown(object: &mut Value, elements: &[&str]) {
    let path = FieldPath(elements.iter().map(|it| (*it).to_owned()).collect());
    for entry in object["metadata"]["managedFields"].as_array_mut().unwrap() {
        let mut paths = fields_of(&entry["fieldsV1"]);
        paths.retain(|it| !path.contains(it));
        entry["fieldsV1"] = fields_to_json(&paths);
    }
}

/// Adds an entry of another manager.
fn own(object: &mut Value, manager: &str, operation: &str, subresource: &str, elements: &[&str]) {
    let path = FieldPath(elements.iter().map(|it| (*it).to_owned()).collect());
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": object["apiVersion"], "time": LATER,
        "fieldsType": "FieldsV1", "fieldsV1": fields_to_json([&path]),
    });
    if !subresource.is_empty() {
        entry["subresource"] = json!(subresource);
    }
    object["metadata"]["managedFields"]
        .as_array_mut()
        .unwrap()
        .push(entry);
}

/// A field of ours goes to `kubectl-edit`.
fn steal(object: &mut Value, elements: &[&str]) {
    disown(object, elements);
    own(object, "kubectl-edit", "Update", "", elements);
}

/// Numbers of a write: version, and generation for kinds that have one.
fn written(object: &mut Value) {
    object["metadata"]["resourceVersion"] = json!("99");
    if object["metadata"]["generation"].is_number() {
        object["metadata"]["generation"] = json!(2);
    }
}

fn key() -> ObjectKey {
    ObjectKey::of(&deployment()).unwrap()
}

#[test]
fn paths_survive_reading_and_writing() {
    for object in [deployment(), config_map()] {
        let fields = &object["metadata"]["managedFields"][0]["fieldsV1"];
        assert_eq!(&fields_to_json(&fields_of(fields)), fields);
    }
    let fields = json!({"f:a": {".": {}, "v:\"x\"": {}, "i:0": {}}});
    let texts: Vec<_> = fields_of(&fields).iter().map(ToString::to_string).collect();
    assert_eq!(texts, [".a", ".a[0]", ".a[\"x\"]"]);
    let container = fields_of(&deployment()["metadata"]["managedFields"][0]["fieldsV1"]);
    let texts: Vec<_> = container.iter().map(ToString::to_string).collect();
    assert!(texts.contains(&".spec.template.spec.containers[name=web].image".to_owned()));
    assert!(texts.contains(&".metadata.labels[\"fairlead/bundle\"]".to_owned()));
}

#[test]
fn fight_is_five_corrections_in_ten_minutes() {
    let mut corrections = Corrections::default();
    let at = |minutes: u64| Duration::from_secs(60 * minutes);
    for minute in 0..5 {
        assert!(!corrections.is_fight(&key(), at(minute)), "{minute}");
        corrections.record(&key(), at(minute));
    }
    assert!(corrections.is_fight(&key(), at(5)));
    assert!(corrections.is_fight(&key(), at(9)));
    assert!(!corrections.is_fight(&key(), at(10)));
    corrections.record(&key(), at(10));
    assert!(!corrections.is_fight(&key(), at(11)));
    corrections.expire(at(30));
    corrections.record(&key(), at(30));
    corrections.forget(&key());
    assert!(!corrections.is_fight(&key(), at(30)));
    let mut live = deployment();
    set(&mut live, "/spec/replicas", json!(5));
    own(
        &mut live,
        "hpa-controller",
        "Update",
        "",
        &["f:spec", "f:replicas"],
    );
    let Comparison::Drift(fields) = compare(&live, &deployment(), &owner(), &[]) else {
        panic!("no drift");
    };
    assert_eq!(
        Corrections::sentence(&key(), &fields),
        "hpa-controller and this bundle fight over .spec.replicas of Deployment shop/web"
    );
}

#[test]
fn drift_is_reported_by_manager() {
    let mut live = deployment();
    set(&mut live, "/spec/replicas", json!(5));
    own(&mut live, "hpa", "Update", "", &["f:spec", "f:replicas"]);
    remove(&mut live, "/metadata/labels/app");
    let Comparison::Drift(fields) = compare(&live, &deployment(), &owner(), &[]) else {
        panic!("no drift");
    };
    let reported: Vec<_> = drifted(&key(), &fields)
        .into_iter()
        .map(|it| (it.object, it.fields, it.manager))
        .collect();
    let object = "Deployment shop/web".to_owned();
    assert_eq!(
        reported,
        [
            (
                object.clone(),
                vec![".metadata.labels.app".to_owned()],
                None
            ),
            (
                object,
                vec![".spec.replicas".to_owned()],
                Some("hpa".to_owned())
            ),
        ]
    );
}

#[test]
fn ignored_fields_keep_their_live_value() {
    let manifest =
        json!({"spec": {"replicas": 2, "paused": true, "strategy": {"type": "Recreate"}}});
    let live = {
        let mut live = deployment();
        set(&mut live, "/spec/replicas", json!(5));
        live
    };
    let keep = |manifest: &Value, pointers: &[&str]| {
        let mut manifest = manifest.clone();
        let pointers: Vec<_> = pointers.iter().map(|it| (*it).to_owned()).collect();
        keep_live_values(&mut manifest, &live, &pointers, &owner());
        manifest
    };
    assert_eq!(keep(&manifest, &["/spec/replicas"])["spec"]["replicas"], 5);
    assert_eq!(
        keep(&manifest, &["/spec/paused"])["spec"].get("paused"),
        None
    );
    // Left out of the manifest, and still ours: else it would fall to its default.
    assert_eq!(
        keep(&json!({}), &["/spec/replicas"]),
        json!({"spec": {"replicas": 5}})
    );
    assert_eq!(
        keep(&json!({}), &["/metadata/labels/app"]),
        json!({"metadata": {"labels": {"app": "web"}}})
    );
    // Never ours.
    assert_eq!(keep(&json!({}), &["/spec/revisionHistoryLimit"]), json!({}));
    assert_eq!(keep(&json!({}), &["/spec/missing", "", "x"]), json!({}));
    let rules =
        [
            serde_json::from_value(json!({"kind": "Deployment", "pointers": ["/spec/paused"]}))
                .unwrap(),
        ];
    assert_eq!(
        ignored_pointers(&rules, &key(), Some(&live), true),
        ["/spec/paused"]
    );
    let mut scaled = live.clone();
    own(
        &mut scaled,
        "kube-controller-manager",
        "Update",
        "scale",
        &["f:spec", "f:replicas"],
    );
    assert_eq!(
        ignored_pointers(&rules, &key(), Some(&scaled), true),
        ["/spec/paused", "/spec/replicas"]
    );
    assert_eq!(
        ignored_pointers(&rules, &key(), Some(&scaled), false),
        ["/spec/paused"]
    );
    let map = ObjectKey::of(&config_map()).unwrap();
    assert!(ignored_pointers(&rules, &map, None, false).is_empty());
}

#[test]
fn ignored_field_of_others_is_no_lost_ownership() {
    let mut live = deployment();
    steal(&mut live, &["f:spec", "f:replicas"]);
    let ignored = ["/spec/replicas".to_owned()];
    let compared = compare(&live, &deployment(), &owner(), &ignored);
    assert_eq!(compared, Comparison::Same);
    let compared = compare(&live, &deployment(), &owner(), &[]);
    assert_eq!(compared, Comparison::OwnershipLost);
}
