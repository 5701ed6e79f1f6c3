//! Edits by others, and the expected decision for each: the table that was measured on a live API server.

use super::*;

pub(super) const REPLICAS: &[&str] = &["f:spec", "f:replicas"];
pub(super) const IMAGE: &[&str] = &[
    "f:spec",
    "f:template",
    "f:spec",
    "f:containers",
    "k:{\"name\":\"web\"}",
    "f:image",
];

pub(super) fn container(rest: &[&'static str]) -> Vec<&'static str> {
    let mut path = IMAGE[..5].to_vec();
    path.extend(rest);
    path
}

pub(super) fn judge(answer: &Value, live: &Value) -> Observation {
    let baseline = Baseline::of_answer(answer, &owner()).unwrap();
    baseline.judge(Seen::Present(live), &owner(), LABEL, LONG_AFTER)
}

/// An edit that must be seen, and the fields of the comparison as `path change manager`.
struct Edit {
    name: &'static str,
    object: fn() -> Value,
    edit: fn(&mut Value),
    reason: CompareReason,
    fields: &'static [&'static str],
}

use CompareReason::{Generation, OwnName, Ownership};

const SEEN: &[Edit] = &[
    Edit {
        name: "kubectl edit of a value",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            set(it, "/data/a", json!("9"));
            steal(it, &["f:data", "f:a"]);
        },
        fields: &[".data.a Changed kubectl-edit"],
    },
    Edit {
        name: "kubectl label --overwrite",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, "/metadata/labels/app", json!("x"));
            steal(it, &["f:metadata", "f:labels", "f:app"]);
        },
        fields: &[".metadata.labels.app Changed kubectl-edit"],
    },
    Edit {
        name: "kubectl set image",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, &format!("{CONTAINER}/image"), json!("web:2"));
            steal(it, IMAGE);
        },
        fields: &[".spec.template.spec.containers[name=web].image Changed kubectl-edit"],
    },
    Edit {
        name: "kubectl set env",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, &format!("{CONTAINER}/env/0/value"), json!("9"));
            steal(it, &container(&["f:env", "k:{\"name\":\"A\"}", "f:value"]));
        },
        fields: &[
            ".spec.template.spec.containers[name=web].env[name=A].value Changed kubectl-edit",
        ],
    },
    Edit {
        name: "kubectl scale",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, "/spec/replicas", json!(5));
            disown(it, REPLICAS);
            own(it, "kubectl", "Update", "scale", REPLICAS);
        },
        fields: &[".spec.replicas Changed kubectl scale"],
    },
    Edit {
        name: "autoscaler",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, "/spec/replicas", json!(5));
            disown(it, REPLICAS);
            own(it, "kube-controller-manager", "Update", "scale", REPLICAS);
        },
        fields: &[".spec.replicas Changed kube-controller-manager scale"],
    },
    Edit {
        name: "forced apply by others",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            set(it, "/data/a", json!("9"));
            disown(it, &["f:data", "f:a"]);
            own(it, "argocd", "Apply", "", &["f:data", "f:a"]);
        },
        fields: &[".data.a Changed argocd"],
    },
    Edit {
        name: "client-side apply",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            set(it, "/data/b", json!("9"));
            disown(it, &["f:data", "f:b"]);
            own(
                it,
                "kubectl-client-side-apply",
                "Update",
                "",
                &["f:data", "f:b"],
            );
        },
        fields: &[".data.b Changed kubectl-client-side-apply"],
    },
    Edit {
        name: "update under our name",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            set(it, "/data/a", json!("9"));
            disown(it, &["f:data", "f:a"]);
            own(it, "fairlead/b-shop", "Update", "", &["f:data", "f:a"]);
        },
        fields: &[".data.a Changed fairlead/b-shop"],
    },
    Edit {
        name: "key removed",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            remove(it, "/data/a");
            disown(it, &["f:data", "f:a"]);
        },
        fields: &[".data.a Removed"],
    },
    Edit {
        name: "all data removed",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            remove(it, "/data");
            disown(it, &["f:data"]);
        },
        fields: &[".data Removed"],
    },
    Edit {
        name: "item of a keyed list removed",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            remove(it, &format!("{CONTAINER}/env/1"));
            disown(it, &container(&["f:env", "k:{\"name\":\"B\"}"]));
        },
        fields: &[".spec.template.spec.containers[name=web].env[name=B] Removed"],
    },
    Edit {
        name: "node selector removed",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            remove(it, "/spec/template/spec/nodeSelector");
            disown(it, &["f:spec", "f:template", "f:spec", "f:nodeSelector"]);
        },
        fields: &[".spec.template.spec.nodeSelector Removed"],
    },
    Edit {
        name: "port removed",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            remove(it, &format!("{CONTAINER}/ports"));
            disown(it, &container(&["f:ports"]));
        },
        fields: &[".spec.template.spec.containers[name=web].ports Removed"],
    },
    Edit {
        name: "replicas left out by PUT: the default comes",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, "/spec/replicas", json!(1));
            disown(it, REPLICAS);
        },
        fields: &[".spec.replicas Changed"],
    },
    Edit {
        name: "argument added to an atomic list",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, &format!("{CONTAINER}/args"), json!(["a", "b"]));
            steal(it, &container(&["f:args"]));
        },
        fields: &[".spec.template.spec.containers[name=web].args Changed kubectl-edit"],
    },
    Edit {
        name: "toleration added",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(
                it,
                "/spec/template/spec/tolerations",
                json!([{"key": "a"}, {"key": "b"}]),
            );
            steal(it, &["f:spec", "f:template", "f:spec", "f:tolerations"]);
        },
        fields: &[".spec.template.spec.tolerations Changed kubectl-edit"],
    },
    Edit {
        name: "key added to an atomic map",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, "/spec/template/spec/nodeSelector/zone", json!("a"));
            steal(it, &["f:spec", "f:template", "f:spec", "f:nodeSelector"]);
        },
        fields: &[".spec.template.spec.nodeSelector Changed kubectl-edit"],
    },
    Edit {
        name: "selector of labels changed",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(it, "/spec/selector/matchLabels/app", json!("x"));
            steal(it, &["f:spec", "f:selector"]);
        },
        fields: &[".spec.selector Changed kubectl-edit"],
    },
    Edit {
        name: "key of a list item changed",
        object: deployment,
        reason: Ownership,
        edit: |it| {
            set(
                it,
                &format!("{CONTAINER}/ports"),
                json!([{"containerPort": 81, "protocol": "TCP"}]),
            );
            disown(it, &container(&["f:ports"]));
            own(
                it,
                "kubectl-edit",
                "Update",
                "",
                &container(&[
                    "f:ports",
                    "k:{\"containerPort\":81,\"protocol\":\"TCP\"}",
                    "f:containerPort",
                ]),
            );
        },
        fields: &[
            ".spec.template.spec.containers[name=web].ports[containerPort=81,protocol=TCP] Added kubectl-edit",
            ".spec.template.spec.containers[name=web].ports[containerPort=80,protocol=TCP] Removed",
        ],
    },
    Edit {
        name: "managedFields stripped",
        object: config_map,
        reason: Ownership,
        edit: |it| set(it, "/metadata/managedFields", json!([])),
        fields: &[],
    },
    Edit {
        name: "managedFields stripped to an empty entry",
        object: config_map,
        reason: Ownership,
        edit: |it| set(it, "/metadata/managedFields", json!([{}])),
        fields: &[],
    },
    Edit {
        name: "changed and changed back",
        object: config_map,
        reason: Ownership,
        edit: |it| steal(it, &["f:data", "f:a"]),
        fields: &[],
    },
    Edit {
        name: "apply under our name, other value",
        object: config_map,
        reason: OwnName,
        edit: |it| {
            set(it, "/data/a", json!("9"));
            set(it, "/metadata/managedFields/0/time", json!(LATER));
        },
        fields: &[".data.a Changed fairlead/b-shop"],
    },
    Edit {
        name: "keyed list reordered",
        object: deployment,
        reason: Generation,
        edit: |it| {
            set(
                it,
                &format!("{CONTAINER}/env"),
                json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]),
            )
        },
        fields: &[".spec.template.spec.containers[name=web].env Changed fairlead/b-shop"],
    },
    Edit {
        name: "admission changes our field in another's write",
        object: deployment,
        reason: Generation,
        edit: |it| set(it, &format!("{CONTAINER}/image"), json!("mirror/web:1")),
        fields: &[".spec.template.spec.containers[name=web].image Changed fairlead/b-shop"],
    },
    Edit {
        name: "several fields at once",
        object: config_map,
        reason: Ownership,
        edit: |it| {
            set(it, "/data/a", json!("9"));
            remove(it, "/data/b");
            steal(it, &["f:data", "f:a"]);
            disown(it, &["f:data", "f:b"]);
        },
        fields: &[".data.a Changed kubectl-edit", ".data.b Removed"],
    },
];

#[test]
fn edits_of_our_fields_are_seen() {
    for Edit {
        name,
        object,
        edit,
        reason,
        fields,
    } in SEEN
    {
        let answer = object();
        let mut live = answer.clone();
        edit(&mut live);
        written(&mut live);
        assert_eq!(
            judge(&answer, &live),
            Observation::Compare(*reason),
            "{name}"
        );
        let texts: Vec<_> = match compare(&live, &answer, &owner(), &[]) {
            Comparison::Drift(changes) => changes.iter().map(describe).collect(),
            Comparison::OwnershipLost => Vec::new(),
            Comparison::Same => panic!("{name}: same"),
        };
        assert_eq!(&texts, fields, "{name}");
    }
}

fn describe(change: &ChangedField) -> String {
    let mut text = format!("{} {:?}", change.path, change.change);
    for part in [
        change.manager.as_deref().unwrap_or_default(),
        &change.subresource,
    ] {
        if !part.is_empty() {
            text = format!("{text} {part}");
        }
    }
    text
}
