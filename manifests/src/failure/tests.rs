use serde_json::json;

use super::*;

fn judge_as(status: u16, body: &Value, kind: &str, resource: &str) -> Failure {
    let object = json!({
        "apiVersion": if kind == "Deployment" { "apps/v1" } else { "v1" }, "kind": kind,
        "metadata": {"namespace": "shop", "name": "web"},
    });
    let request = RequestContext {
        key: &ObjectKey::of(&object).unwrap(),
        kind: &ObjectKind::of(&object).unwrap(),
        resource,
        verb: "patch",
        user: "system:serviceaccount:fairlead-delivery:deployer",
    };
    failure(status, body, &request)
}

fn judge(status: u16, body: &Value) -> Failure {
    let failure = judge_as(status, body, "Deployment", "deployments");
    assert!(
        failure.sentence.starts_with("Deployment shop/web "),
        "{}",
        failure.sentence
    );
    failure
}

fn check(status: u16, body: &Value, kind: &FailureKind, is_permanent: bool, sentence: &str) {
    let failure = judge(status, body);
    assert_eq!(&failure.kind, kind, "{body}");
    assert_eq!(failure.is_permanent, is_permanent, "{body}");
    assert_eq!(failure.sentence, format!("Deployment shop/web {sentence}"));
}

fn message(text: &str) -> Value {
    json!({"kind": "Status", "message": text})
}

#[test]
fn conflicts_name_field_and_manager() {
    let body = json!({"reason": "Conflict", "message": "Apply failed with 2 conflicts", "details": {"causes": [
        {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl-edit\" using apps/v1 at 2026-11-23T10:00:00Z", "field": ".spec.replicas"},
        {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" with subresource \"scale\" using apps/v1", "field": ".spec.paused"},
    ]}});
    let conflict = |field: &str, manager: &str| FieldConflict {
        field: field.to_owned(),
        manager: manager.to_owned(),
    };
    let conflicts = vec![
        conflict(".spec.replicas", "kubectl-edit"),
        conflict(".spec.paused", "kubectl"),
    ];
    check(
        409,
        &body,
        &FailureKind::Conflict(conflicts),
        true,
        "has fields of other managers: .spec.replicas is set by kubectl-edit; .spec.paused is set by kubectl; `conflicts: force` takes them over",
    );
    check(
        409,
        &message("Operation cannot be fulfilled: the object has been modified"),
        &FailureKind::Outdated,
        false,
        "has changed: Operation cannot be fulfilled: the object has been modified",
    );
}

#[test]
fn invalid_and_immutable_fields_are_named() {
    let body = json!({"reason": "Invalid", "message": "Deployment is invalid", "details": {"causes": [
        {"reason": "FieldValueDuplicate", "message": "Duplicate value: \"http\"", "field": "spec.ports[1].name"},
    ]}});
    check(
        422,
        &body,
        &FailureKind::Invalid(vec!["spec.ports[1].name".into()]),
        true,
        "is invalid: .spec.ports[1].name: Duplicate value: \"http\"",
    );
    let body = json!({"details": {"causes": [
        {"reason": "FieldValueInvalid", "message": "Invalid value: {...}: field is immutable", "field": "spec.selector"},
    ]}});
    check(
        422,
        &body,
        &FailureKind::Immutable(vec!["spec.selector".into()]),
        true,
        "cannot change .spec.selector; delete the object to have it made again",
    );
    check(
        422,
        &message("more than 1 volume type"),
        &FailureKind::Invalid(vec![]),
        true,
        "is invalid: more than 1 volume type",
    );
    let causes: Vec<_> = (0..5)
        .map(|at| json!({"reason": "FieldValueRequired", "message": "Required value", "field": format!("spec.f{at}")}))
        .collect();
    let many = judge(422, &json!({"details": {"causes": causes}}));
    assert!(
        many.sentence.ends_with(".spec.f2: Required value; 2 more"),
        "{}",
        many.sentence
    );
}

#[test]
fn schema_errors_are_permanent() {
    check(
        500,
        &message(
            "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): errors:\n  .spec.template.spec.containers[name=\"web\"].env: duplicate entries for key [name=\"A\"]",
        ),
        &FailureKind::Manifest,
        true,
        "does not fit its schema: .spec.template.spec.containers[name=\"web\"].env: duplicate entries for key [name=\"A\"]",
    );
    check(
        500,
        &message(
            "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema",
        ),
        &FailureKind::Manifest,
        true,
        "does not fit its schema: .spec.foo: field not declared in schema",
    );
    check(
        500,
        &message("request to convert CR to an invalid group/version: example.org/v1alpha1"),
        &FailureKind::RemovedVersion,
        false,
        "has fields of a version that its definition no longer has",
    );
    check(
        500,
        &message(
            "failed to convert new object (/s; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0",
        ),
        &FailureKind::Manifest,
        true,
        "does not fit its schema: illegal base64 data at input byte 0",
    );
    check(
        400,
        &message("error decoding YAML"),
        &FailureKind::Manifest,
        true,
        "is no valid Deployment: error decoding YAML",
    );
    check(
        500,
        &message("etcdserver: request is too large"),
        &FailureKind::TooLarge,
        true,
        "is too large for the API server",
    );
    check(
        413,
        &json!({}),
        &FailureKind::TooLarge,
        true,
        "is too large for the API server",
    );
}

#[test]
fn missing_kinds_and_namespaces_are_waited_for() {
    check(
        404,
        &message("the server could not find the requested resource"),
        &FailureKind::UnknownKind,
        false,
        "waits for kind Deployment (apps/v1), which the cluster has not",
    );
    check(
        404,
        &json!({"message": "namespaces \"shop\" not found", "details": {"kind": "namespaces", "name": "shop"}}),
        &FailureKind::Namespace,
        false,
        "waits for namespace shop, which does not exist",
    );
    check(
        404,
        &json!({"details": {"kind": "deployments", "name": "web"}}),
        &FailureKind::NotFound,
        false,
        "does not exist",
    );
    check(
        403,
        &json!({"message": "forbidden: unable to create new content in namespace shop because it is being terminated"}),
        &FailureKind::Namespace,
        false,
        "waits for the deletion of namespace shop",
    );
}

#[test]
fn missing_rights_come_with_their_rule() {
    let rule = r#"{"apiGroups":["apps"],"resources":["deployments"],"verbs":["patch"]}"#;
    check(
        403,
        &message(
            "deployments.apps \"web\" is forbidden: User \"system:serviceaccount:fairlead-delivery:deployer\" cannot patch resource \"deployments\" in API group \"apps\" in the namespace \"shop\"",
        ),
        &FailureKind::Forbidden(rule.into()),
        false,
        &format!(
            "may not be changed: system:serviceaccount:fairlead-delivery:deployer cannot patch deployments; add to a Role in namespace shop: {rule}"
        ),
    );
    // A message of another form: the request says the rest.
    check(
        403,
        &message("no"),
        &FailureKind::Forbidden(rule.into()),
        false,
        &format!(
            "may not be changed: system:serviceaccount:fairlead-delivery:deployer cannot patch deployments; add to a Role in namespace shop: {rule}"
        ),
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo"}});
    let request = RequestContext {
        key: &ObjectKey::of(&namespace).unwrap(),
        kind: &ObjectKind::of(&namespace).unwrap(),
        resource: "namespaces",
        verb: "patch",
        user: "bob",
    };
    let refusal = message(
        "namespaces \"foo\" is forbidden: User \"bob\" cannot patch resource \"namespaces\" in API group \"\" in the namespace \"foo\"",
    );
    let sentence = failure(403, &refusal, &request).sentence;
    assert!(sentence.contains("add to a ClusterRole: "), "{sentence}");
    let escalation = judge(
        403,
        &message(
            "roles \"x\" is forbidden: user \"u\" is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}",
        ),
    );
    assert!(
        escalation
            .sentence
            .ends_with("add to it: {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"),
        "{}",
        escalation.sentence
    );
    check(
        403,
        &message("exceeded quota: q, requested: pods=1"),
        &FailureKind::Quota,
        false,
        "exceeds quota q, requested: pods=1",
    );
    check(
        403,
        &message("violates PodSecurity \"restricted:latest\": privileged"),
        &FailureKind::Denied("PodSecurity".into()),
        true,
        "violates PodSecurity \"restricted:latest\": privileged",
    );
}

#[test]
fn admission_is_named() {
    check(
        400,
        &message("admission webhook \"validate.example.org\" denied the request: no latest tag"),
        &FailureKind::Denied("validate.example.org".into()),
        true,
        "was refused by validate.example.org: no latest tag",
    );
    check(
        500,
        &message(
            "Internal error occurred: failed calling webhook \"validate.example.org\": failed to call webhook: Post \"https://x\": dial tcp: connection refused",
        ),
        &FailureKind::Webhook("validate.example.org".into()),
        false,
        "waits for webhook validate.example.org: failed to call webhook: Post \"https://x\": dial tcp: connection refused",
    );
    check(
        422,
        &message(
            "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'b' denied request: no latest tag",
        ),
        &FailureKind::Denied("no-latest".into()),
        true,
        "was refused by no-latest: no latest tag",
    );
}

#[test]
fn states_of_the_server_are_retried() {
    for status in [429, 502, 503, 504] {
        let failure = judge(status, &json!({"details": {"retryAfterSeconds": 3}}));
        assert_eq!(
            (failure.kind, failure.is_permanent),
            (FailureKind::Unavailable, false)
        );
        assert_eq!(failure.retry_after_seconds, Some(3));
    }
    assert_eq!(judge(401, &json!({})).kind, FailureKind::Unauthorized);
    check(
        500,
        &message("etcd leader changed"),
        &FailureKind::Other,
        false,
        "was refused with status 500: etcd leader changed",
    );
    check(
        418,
        &Value::Null,
        &FailureKind::Other,
        true,
        "was refused with status 418",
    );
}

#[test]
fn messages_about_secrets_are_left_out() {
    let secret = "hunter2-hunter2";
    let causes = json!({"message": secret, "details": {"causes": [{"reason": "FieldValueInvalid", "field": "data[a]", "message": format!("Invalid value: \"{secret}\"")}]}});
    for (status, body) in [
        (422, causes),
        (422, message(secret)),
        (400, message(secret)),
        (500, message(secret)),
        (500, message(&format!("error decoding from json: {secret}"))),
        (
            500,
            message(&format!(
                "failed to create typed patch object (a): {secret}"
            )),
        ),
        (
            403,
            message(&format!(
                "admission webhook \"w\" denied the request: {secret}"
            )),
        ),
    ] {
        let failure = judge_as(status, &body, "Secret", "secrets");
        assert!(!failure.sentence.contains(secret), "{}", failure.sentence);
    }
}
