use fairlead_api::Code;
use fairlead_runner::{Cause, Ending, Exit};

use super::*;
use crate::helm::testing;

fn ending(exit: Exit, cause: Cause) -> Ending {
    Ending {
        exit,
        cause,
        out_of_memory: false,
        duration_ms: 1,
    }
}

fn judged(errors: &str, hook: Option<(&str, &str)>) -> RunFailure {
    judge(&Failed {
        target: &ReleaseTarget::of(&testing::spec()).unwrap(),
        ending: &ending(Exit::Code(1), Cause::Finished),
        errors,
        hook,
        memory_limit: None,
        timeout_seconds: 300,
    })
}

/// Texts of Helm 4.3.
#[test]
fn faults_of_chart_and_values_are_permanent_and_named() {
    for (errors, code, sentence) in [
        (
            "Error: values don't meet the specifications of the schema(s) in the following chart(s):\nshop:\n- at '/replicas': got string, want integer\n- at '/db': missing property 'host'\n",
            Code::HelmValuesRefused,
            "value replicas of chart shop: got string, want integer; value db of chart shop: missing property 'host'",
        ),
        (
            "Error: UPGRADE FAILED: shop/templates/a.yaml:6:15\n  executing \"shop/templates/a.yaml\" at <.Values.a.b.c>:\n    nil pointer evaluating interface {}.b\n\nUse --debug flag to render out invalid YAML\n",
            Code::HelmTemplateFailed,
            "shop/templates/a.yaml:6:15: executing \"shop/templates/a.yaml\" at <.Values.a.b.c>: nil pointer evaluating interface {}.b",
        ),
        (
            "level=WARN msg=x\nError: execution error at (shop/templates/a.yaml:6:8): a is required\n\nUse --debug flag",
            Code::HelmTemplateFailed,
            "shop/templates/a.yaml:6:8: a is required",
        ),
        (
            "Error: parse error at (shop/templates/a.yaml:6): function \"foo\" not defined",
            Code::HelmTemplateFailed,
            "shop/templates/a.yaml:6: function \"foo\" not defined",
        ),
        (
            "Error: YAML parse error on shop/templates/a.yaml: error converting YAML to JSON: yaml: line 5: did not find expected node content",
            Code::HelmTemplateFailed,
            "shop/templates/a.yaml: yaml: line 5: did not find expected node content",
        ),
        (
            "Error: chart requires kubeVersion: >=9 which is incompatible with Kubernetes v1.37.0",
            Code::HelmKubernetesVersion,
            "the chart needs Kubernetes >=9, the cluster has Kubernetes v1.37.0",
        ),
        (
            "Error: an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: redis",
            Code::HelmChartInvalid,
            "the chart lacks its dependencies redis",
        ),
        (
            "Error: validation: chart.metadata.name is required",
            Code::HelmChartInvalid,
            "Chart.yaml is unusable: validation: chart.metadata.name is required",
        ),
    ] {
        let failure = judged(errors, None);
        assert_eq!(
            (failure.code, failure.class),
            (code, FailureClass::Permanent),
            "{failure:?}"
        );
        assert_eq!(
            failure.sentence,
            format!("Helm release shop/web: {sentence}")
        );
    }
}

#[test]
fn hooks_are_named_and_tried_again() {
    let failure = judged(
        "Error: UPGRADE FAILED: pre-upgrade hooks failed: resource Job/shop/migrate not ready. status: Failed, message: Job Failed. failed: 1/1\ncontext canceled",
        Some(("Job", "migrate")),
    );
    assert_eq!(failure.code, Code::HelmHookFailed);
    assert_eq!(failure.class, FailureClass::Retry);
    assert_eq!(
        failure.sentence,
        "Helm release shop/web: hook Job shop/migrate (pre-upgrade) failed: resource Job/shop/migrate not ready. status: Failed, message: Job Failed. failed: 1/1 context canceled"
    );
    let late = judged(
        "Error: failed pre-install: resource Job/shop/migrate not ready. status: InProgress, message: Job in progress\ncontext deadline exceeded",
        Some(("Job", "migrate")),
    );
    assert_eq!(
        late.sentence,
        "Helm release shop/web: hook Job shop/migrate (pre-install) did not end within its time of 5 min"
    );
}

#[test]
fn refusals_of_the_api_server_name_object_and_owner() {
    for (errors, code, class, sentence) in [
        (
            "Error: UPGRADE FAILED: unable to continue with update: ConfigMap \"settings\" in namespace \"shop\" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key \"app.kubernetes.io/managed-by\": must be set to \"Helm\"; annotation validation error: missing key \"meta.helm.sh/release-name\": must be set to \"web\"",
            Code::HelmObjectOwned,
            FailureClass::Permanent,
            "ConfigMap shop/settings exists already, and belongs to no release",
        ),
        (
            "Error: unable to continue with install: ClusterRole \"reader\" in namespace \"\" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: key \"meta.helm.sh/release-name\" must equal \"web\": current value is \"other\"",
            Code::HelmObjectOwned,
            FailureClass::Permanent,
            "ClusterRole reader belongs to Helm release shop/other",
        ),
        (
            "Error: UPGRADE FAILED: conflict occurred while applying object shop/web apps/v1, Kind=Deployment: Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas",
            Code::HelmFieldConflict,
            FailureClass::Permanent,
            "Deployment shop/web: kubectl holds .spec.replicas",
        ),
        (
            "Error: UPGRADE FAILED: server-side apply failed for object shop/web apps/v1, Kind=Deployment: Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\"}}: field is immutable",
            Code::HelmFieldImmutable,
            FailureClass::Permanent,
            "Deployment shop/web: field spec.selector cannot change",
        ),
        (
            "Error: UPGRADE FAILED: server-side apply failed for object shop/a example.com/v1, Kind=Boat: failed to create typed patch object (shop/a; example.com/v1, Kind=Boat): .spec.sail: field not declared in schema",
            Code::ObjectRefused,
            FailureClass::Permanent,
            "Boat shop/a does not fit its schema: .spec.sail: field not declared in schema",
        ),
        (
            "Error: unable to build kubernetes objects from release manifest: resource mapping not found for name: \"c\" namespace: \"\" from \"\": no matches for kind \"Certificate\" in version \"cert-manager.io/v1\"\nensure CRDs are installed first",
            Code::DeploymentWaits,
            FailureClass::Waiting,
            "waits for kind Certificate (cert-manager.io/v1), which the cluster has not",
        ),
        (
            "Error: failed to create resource: configmaps is forbidden: User \"system:serviceaccount:fairlead-delivery:deployer\" cannot patch resource \"configmaps\" in API group \"\" in the namespace \"shop\"",
            Code::MissingRight,
            FailureClass::Retry,
            "system:serviceaccount:fairlead-delivery:deployer needs the rule {\"apiGroups\":[\"\"],\"resources\":[\"configmaps\"],\"verbs\":[\"patch\"]} in namespace shop",
        ),
        (
            "Error: kubernetes cluster unreachable: Get \"https://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused",
            Code::ApiServerAway,
            FailureClass::Waiting,
            "Helm cannot work with the API server: Get \"https://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused",
        ),
        (
            "Error: UPGRADE FAILED: something new\nin two lines",
            Code::HelmFailed,
            FailureClass::Retry,
            "something new in two lines",
        ),
        (
            "",
            Code::HelmFailed,
            FailureClass::Retry,
            "Helm failed without a message",
        ),
    ] {
        let failure = judged(errors, None);
        assert_eq!((failure.code, failure.class), (code, class), "{failure:?}");
        assert_eq!(
            failure.sentence,
            format!("Helm release shop/web: {sentence}")
        );
    }
}

#[test]
fn end_of_the_program_comes_before_its_words() {
    let target = ReleaseTarget::of(&testing::spec()).unwrap();
    let mut ended = ending(Exit::Signal(9), Cause::Finished);
    let judged = |ending: &Ending| {
        judge(&Failed {
            target: &target,
            ending,
            errors: "Error: something",
            hook: None,
            memory_limit: Some(1 << 30),
            timeout_seconds: 900,
        })
    };
    assert_eq!(
        judged(&ended).sentence,
        "Helm release shop/web: Helm was ended by signal 9"
    );
    ended.out_of_memory = true;
    let memory = judged(&ended);
    assert_eq!(memory.code, Code::HelmMemory);
    assert_eq!(
        memory.sentence,
        "Helm release shop/web: Helm was killed for memory (limit 1 GiB)"
    );
    let late = judged(&ending(Exit::Code(1), Cause::TimedOut));
    assert_eq!(
        (late.code, late.class),
        (Code::HelmTimeout, FailureClass::Retry)
    );
    assert_eq!(
        late.sentence,
        "Helm release shop/web: Helm did not end within 15 min"
    );
    let away = judged(&ending(Exit::Code(1), Cause::RunnerEnded));
    assert_eq!(
        (away.code, away.class),
        (Code::RunnerAway, FailureClass::Waiting)
    );
}
