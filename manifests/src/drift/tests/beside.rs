//! Edits that are no drift, and edits of the object as a whole.

use super::{
    edits::{IMAGE, REPLICAS, container, judge},
    *,
};

/// Name, object, edit, and the fields that others own beside ours.
type Silent = (
    &'static str,
    fn() -> Value,
    fn(&mut Value),
    &'static [&'static str],
);

/// Edits that are no drift, with the field that others own beside ours.
const SILENT: &[Silent] = &[
    (
        "key added",
        config_map,
        |it| {
            set(it, "/data/c", json!("3"));
            own(it, "kubectl-edit", "Update", "", &["f:data", "f:c"]);
        },
        &[".data.c"],
    ),
    (
        "label added",
        deployment,
        |it| {
            set(it, "/metadata/labels/x", json!("1"));
            own(
                it,
                "kubectl-label",
                "Update",
                "",
                &["f:metadata", "f:labels", "f:x"],
            );
        },
        &[".metadata.labels.x"],
    ),
    (
        "env added",
        deployment,
        |it| {
            own(
                it,
                "kubectl-edit",
                "Update",
                "",
                &container(&["f:env", "k:{\"name\":\"C\"}", "f:value"]),
            )
        },
        &[".spec.template.spec.containers[name=web].env[name=C].value"],
    ),
    (
        "sidecar added",
        deployment,
        |it| {
            own(
                it,
                "injector",
                "Update",
                "",
                &[
                    "f:spec",
                    "f:template",
                    "f:spec",
                    "f:containers",
                    "k:{\"name\":\"proxy\"}",
                    "f:image",
                ],
            )
        },
        &[".spec.template.spec.containers[name=proxy].image"],
    ),
    (
        "port added",
        deployment,
        |it| {
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
            )
        },
        &[
            ".spec.template.spec.containers[name=web].ports[containerPort=81,protocol=TCP].containerPort",
        ],
    ),
    (
        "host network",
        deployment,
        |it| {
            own(
                it,
                "kubectl-edit",
                "Update",
                "",
                &["f:spec", "f:template", "f:spec", "f:hostNetwork"],
            )
        },
        &[".spec.template.spec.hostNetwork"],
    ),
    (
        "command added",
        deployment,
        |it| own(it, "kubectl-edit", "Update", "", &container(&["f:command"])),
        &[".spec.template.spec.containers[name=web].command"],
    ),
    (
        "limits added",
        deployment,
        |it| {
            own(
                it,
                "kubectl-edit",
                "Update",
                "",
                &container(&["f:resources", "f:limits", "f:cpu"]),
            )
        },
        &[".spec.template.spec.containers[name=web].resources.limits.cpu"],
    ),
    (
        "rollout restart",
        deployment,
        |it| {
            own(
                it,
                "kubectl-rollout",
                "Update",
                "",
                &[
                    "f:spec",
                    "f:template",
                    "f:metadata",
                    "f:annotations",
                    "f:kubectl.kubernetes.io/restartedAt",
                ],
            )
        },
        &[".spec.template.metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]"],
    ),
    (
        "finalizer added",
        config_map,
        |it| {
            own(
                it,
                "protector",
                "Update",
                "",
                &["f:metadata", "f:finalizers", "v:\"a/b\""],
            )
        },
        &[".metadata.finalizers[\"a/b\"]"],
    ),
    (
        "owner reference added",
        config_map,
        |it| {
            own(
                it,
                "owner",
                "Update",
                "",
                &["f:metadata", "f:ownerReferences", "k:{\"uid\":\"x\"}"],
            )
        },
        &[".metadata.ownerReferences[uid=x]"],
    ),
    (
        "status written",
        deployment,
        |it| {
            own(
                it,
                "kube-controller-manager",
                "Update",
                "status",
                &["f:status", "f:replicas"],
            )
        },
        &[],
    ),
    (
        "equal value owned by others, too",
        config_map,
        |it| own(it, "argocd", "Apply", "", &["f:data", "f:a"]),
        &[],
    ),
    (
        "parents of ours",
        config_map,
        |it| own(it, "kubectl-create", "Update", "", &["f:data"]),
        &[],
    ),
    ("nothing changed", config_map, |_| {}, &[]),
];

#[test]
fn edits_beside_our_fields_are_listed_and_no_drift() {
    for (name, object, edit, fields) in SILENT {
        let answer = object();
        let mut live = answer.clone();
        edit(&mut live);
        live["metadata"]["resourceVersion"] = json!("99");
        assert_eq!(judge(&answer, &live), Observation::Same, "{name}");
        // Kinds with a generation are compared if it moves, and nothing differs.
        if live["metadata"]["generation"].is_number() {
            let mut moved = live.clone();
            written(&mut moved);
            let generation = Observation::Compare(CompareReason::Generation);
            assert_eq!(judge(&answer, &moved), generation, "{name}");
        }
        let texts: Vec<_> = beside(&live, &owner())
            .iter()
            .map(|it| it.path.to_string())
            .collect();
        assert_eq!(&texts, fields, "{name}");
    }
}

#[test]
fn deletions_labels_and_the_second_of_the_apply_are_seen() {
    let answer = config_map();
    let baseline = Baseline::of_answer(&answer, &owner()).unwrap();
    let judge = |seen: Seen<'_>, since| baseline.judge(seen, &owner(), LABEL, since);
    assert_eq!(judge(Seen::Deleted(None), LONG_AFTER), Observation::Gone);
    assert_eq!(
        judge(Seen::Deleted(Some(&answer)), LONG_AFTER),
        Observation::Same
    );
    let edited = |edit: fn(&mut Value)| {
        let mut live = answer.clone();
        edit(&mut live);
        live
    };
    type Row = (fn(&mut Value), Observation);
    let rows: [Row; 5] = [
        (
            |it| remove(it, "/metadata/labels/fairlead~1bundle"),
            Observation::LeftSelector,
        ),
        (
            |it| set(it, "/metadata/labels/fairlead~1bundle", json!("b-web")),
            Observation::LeftSelector,
        ),
        (
            |it| remove(it, "/metadata/labels"),
            Observation::LeftSelector,
        ),
        (
            |it| set(it, "/metadata/uid", json!("u9")),
            Observation::Compare(CompareReason::Replaced),
        ),
        (
            |it| set(it, "/metadata/deletionTimestamp", json!(LATER)),
            Observation::Compare(CompareReason::Deleting),
        ),
    ];
    for (edit, expected) in rows {
        let live = edited(edit);
        assert_eq!(judge(Seen::Present(&live), LONG_AFTER), expected);
        assert_eq!(judge(Seen::Deleted(Some(&live)), LONG_AFTER), expected);
    }
    let changed = edited(|it| set(it, "/metadata/resourceVersion", json!("21")));
    let at_once = Duration::from_millis(100);
    assert_eq!(
        judge(Seen::Present(&changed), at_once),
        Observation::Compare(CompareReason::SameSecond)
    );
    assert_eq!(judge(Seen::Present(&answer), at_once), Observation::Same);
    assert_eq!(
        judge(Seen::Present(&changed), LONG_AFTER),
        Observation::Same
    );
}

#[test]
fn ignored_fields_and_defaults_are_no_drift() {
    let mut live = deployment();
    set(&mut live, "/spec/replicas", json!(5));
    set(&mut live, &format!("{CONTAINER}/image"), json!("web:2"));
    steal(&mut live, REPLICAS);
    steal(&mut live, IMAGE);
    let ignored = ["/spec/replicas".to_owned(), CONTAINER.to_owned()];
    assert_eq!(
        compare(&live, &deployment(), &owner(), &ignored),
        Comparison::OwnershipLost
    );
    // `/spec/rep` is no parent of `/spec/replicas`.
    let Comparison::Drift(changes) = compare(&live, &deployment(), &owner(), &["/spec/rep".into()])
    else {
        panic!("no drift");
    };
    assert_eq!(changes.len(), 2);
    let mut other = deployment();
    set(&mut other, "/status", json!({"replicas": 1}));
    set(&mut other, "/metadata/resourceVersion", json!("11"));
    assert_eq!(
        compare(&other, &deployment(), &owner(), &[]),
        Comparison::Same
    );
}

#[test]
fn baseline_needs_our_entry() {
    assert!(Baseline::of_answer(&config_map(), &FieldOwner::apply("fairlead/b-web")).is_none());
    assert!(Baseline::of_answer(&json!({}), &owner()).is_none());
    let baseline = Baseline::of_answer(&deployment(), &owner()).unwrap();
    let text = serde_json::to_string(&baseline).unwrap();
    assert_eq!(serde_json::from_str::<Baseline>(&text).unwrap(), baseline);
}
