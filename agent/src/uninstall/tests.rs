use serde_json::json;

use super::*;

#[test]
fn agent_is_removed_first_and_its_namespace_last() {
    let all = InstalledObject::all();
    let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "Deployment fairlead/fairlead-agent");
    assert_eq!(
        shown[11],
        "ValidatingAdmissionPolicyBinding fairlead-namespace"
    );
    assert_eq!(shown[15], "ClusterRoleBinding fairlead-agent");
    assert_eq!(
        shown.last().unwrap(),
        "Namespace fairlead, with all that is in it"
    );
    assert_eq!(
        all[10].path,
        "/api/v1/namespaces/fairlead/secrets/fairlead-identity"
    );
}

#[test]
fn objects_without_the_label_belong_to_others() {
    let role = InstalledObject::of_cluster("ClusterRole", RBAC_PATH, "clusterroles", AGENT_NAME);
    let labelled = json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": "fairlead" } } });
    assert!(role.is_ours(&labelled) && !role.is_ours(&json!({ "metadata": {} })));
    let secret = InstalledObject::of_gitops().next().unwrap();
    assert_eq!(secret.to_string(), "Secret flux-system/flux-system");
    let managed =
        json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "fairlead" } } });
    assert!(secret.is_ours(&managed) && !secret.is_ours(&labelled));
}

#[test]
fn bindings_to_fairleads_roles_and_groups_are_found() {
    let binding = |role: &str, subject: Value| json!({ "roleRef": { "kind": "ClusterRole", "name": role }, "subjects": [subject] });
    let group = |name: &str| json!({ "kind": "Group", "name": name });
    for (binding, expected) in [
        (
            binding(
                "fairlead-facts-helm",
                json!({ "kind": "ServiceAccount", "name": "x" }),
            ),
            Some("ClusterRole fairlead-facts-helm"),
        ),
        (
            binding("edit", group("fairlead:tenant:t-a:viewer")),
            Some("fairlead:tenant:t-a:viewer"),
        ),
        (binding("edit", group("fairleads")), None),
        (
            json!({ "roleRef": { "kind": "ClusterRole", "name": "view" } }),
            None,
        ),
    ] {
        assert_eq!(binds(&binding).as_deref(), expected, "{binding}");
    }
}
