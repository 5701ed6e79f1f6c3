use super::*;

fn patched(live: &Value, patch: &Value) -> Value {
    let mut object = live.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

fn own_paths(object: &Value) -> Vec<String> {
    let entry = owner().entry(object).unwrap();
    fields_of(entry.fields)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// An object after `kubectl apply`.
fn by_hand() -> Value {
    let mut object = config_map();
    object["metadata"]["managedFields"] = json!([
        {"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1", "time": TIME,
         "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}},
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": TIME, "subresource": "status",
         "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}},
    ]);
    object
}

#[test]
fn adoption_moves_the_fields_of_the_former_manager() {
    let live = by_hand();
    let patch = take_over(&live, &owner(), &is_adoptable).unwrap();
    assert_eq!(
        patch[1],
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "20"})
    );
    let object = patched(&live, &patch);
    assert_eq!(own_paths(&object), [".data", ".data.a", ".data.b"]);
    let managers: Vec<_> = entries(&object).map(|it| it.manager.to_owned()).collect();
    assert_eq!(managers, ["kubelet", "fairlead/b-shop"]);
    // Nothing is left to move.
    assert_eq!(take_over(&object, &owner(), &is_adoptable), None);
}

#[test]
fn former_managers_are_known() {
    for (manager, operation, subresource, expected) in [
        ("kubectl-client-side-apply", "Update", "", true),
        ("before-first-apply", "Update", "", true),
        ("helm", "Update", "", true),
        ("helm", "Apply", "", true),
        ("fairlead/b-web", "Apply", "", true),
        ("fairlead/b-web", "Update", "", false),
        ("kube-controller-manager", "Update", "", false),
        ("helm", "Update", "status", false),
    ] {
        let entry = ManagedEntry {
            manager,
            operation,
            subresource,
            api_version: "v1",
            time: TIME,
            fields: &Value::Null,
        };
        assert_eq!(
            is_adoptable(&entry),
            expected,
            "{manager} {operation} {subresource}"
        );
    }
}

#[test]
fn entries_of_another_version_stay() {
    let mut live = deployment();
    own(&mut live, "helm", "Update", "", &["f:spec", "f:paused"]);
    live["metadata"]["managedFields"][1]["apiVersion"] = json!("apps/v1beta1");
    assert_eq!(take_over(&live, &owner(), &is_adoptable), None);
}

#[test]
fn refused_correction_moves_fields_of_the_named_list() {
    let manifest = deployment();
    let mut live = deployment();
    let port = "k:{\"containerPort\":81,\"protocol\":\"TCP\"}";
    let container = [
        "f:spec",
        "f:template",
        "f:spec",
        "f:containers",
        "k:{\"name\":\"web\"}",
    ];
    let mut path = container.to_vec();
    path.extend(["f:ports", port, "f:containerPort"]);
    own(&mut live, "kubectl-edit", "Update", "", &path);
    own(
        &mut live,
        "labeller",
        "Update",
        "",
        &["f:metadata", "f:labels", "f:x"],
    );
    own(
        &mut live,
        "volumes",
        "Update",
        "",
        &[
            "f:spec",
            "f:template",
            "f:spec",
            "f:volumes",
            "k:{\"name\":\"x\"}",
            "f:hostPath",
        ],
    );
    own(&mut live, "kubelet", "Update", "status", &container);
    let causes = ["spec.template.spec.containers[0].ports[1].containerPort".to_owned()];
    let patch = take_over_lists(&live, &owner(), &manifest, &causes).unwrap();
    let object = patched(&live, &patch);
    let managers: Vec<_> = entries(&object).map(|it| it.manager.to_owned()).collect();
    assert_eq!(
        managers,
        ["labeller", "volumes", "kubelet", "fairlead/b-shop"]
    );
    assert!(
        own_paths(&object)
            .iter()
            .any(|it| it.contains("containerPort=81"))
    );
    // A refusal without fields moves what lies in any list of the manifest.
    assert!(take_over_lists(&live, &owner(), &manifest, &[]).is_some());
    let other = ["spec.ports[0]".to_owned()];
    assert_eq!(take_over_lists(&live, &owner(), &manifest, &other), None);
}

#[test]
fn version_of_our_entry_is_rewritten() {
    let live = deployment();
    assert_eq!(rewrite_version(&live, &owner(), "apps/v1"), None);
    let patch = rewrite_version(&live, &owner(), "apps/v2").unwrap();
    assert_eq!(
        owner().entry(&patched(&live, &patch)).unwrap().api_version,
        "apps/v2"
    );
}
