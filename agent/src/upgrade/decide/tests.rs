use serde_json::{Value, json};
use time::{Duration, macros::datetime};

use super::*;
use crate::upgrade::deployment::UPGRADE_ANNOTATION;

const START: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

/// Deployment of one replica with this image; a note is optional.
fn object(image: &str, noted: Option<&NotedUpgrade>) -> Value {
    let annotations =
        noted.map(|it| json!({ UPGRADE_ANNOTATION: serde_json::to_string(it).unwrap() }));
    json!({
        "metadata": { "resourceVersion": "7", "generation": 2, "annotations": annotations },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "fairlead-agent" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0 } },
            "template": { "spec": { "containers": [
                { "name": "agent", "image": image },
                { "name": "runner", "image": image },
                { "name": "sidecar", "image": "other:1" },
            ] } },
        },
        "status": { "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 },
    })
}

fn desired() -> DesiredUpgrade {
    DesiredUpgrade {
        id: "au-1".to_owned(),
        version: "0.2.0".to_owned(),
        image: "reg:5000/fairlead:0.2.0".to_owned(),
        timeout_seconds: 300,
    }
}

fn own(version: &str) -> AgentSelf {
    AgentSelf {
        version: version.to_owned(),
        rule: UpgradeRule::SameRepository,
    }
}

const FORMER: &str = "reg:5000/fairlead:0.1.0";

fn open() -> NotedUpgrade {
    let deployment = AgentDeployment::read(&object(FORMER, None)).unwrap();
    deployment.begin(&desired(), "0.1.0", START)
}

fn decision(object: &Value, own: &AgentSelf, now: OffsetDateTime) -> Decision {
    let deployment = AgentDeployment::read(object).unwrap();
    decide(&deployment, Some(&desired()), own, now)
}

fn set(mut object: Value, path: &str, value: Value) -> Value {
    *object.pointer_mut(path).unwrap() = value;
    object
}

#[test]
fn desired_upgrade_starts_once() {
    let former = object(FORMER, None);
    assert_eq!(
        decision(&former, &own("0.1.0"), START),
        Decision::Start(open())
    );
    for (state, cause) in [
        (ClusterUpgradeState::Done, None),
        (ClusterUpgradeState::RolledBack, Some("x".to_owned())),
    ] {
        let noted = open().ended(state, cause);
        let after = object(FORMER, Some(&noted));
        assert_eq!(
            decision(&after, &own("0.1.0"), START),
            Decision::Report(noted.report())
        );
    }
    let deployment = AgentDeployment::read(&former).unwrap();
    assert_eq!(
        decide(&deployment, None, &own("0.1.0"), START),
        Decision::Nothing
    );
}

#[test]
fn patch_changes_only_containers_with_the_agents_image() {
    let deployment = AgentDeployment::read(&object(FORMER, None)).unwrap();
    let noted = open();
    let patch = deployment.patch(&noted, Some(&noted.image));
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let template = &patch["spec"]["template"];
    assert_eq!(
        template["spec"]["containers"],
        json!([
            { "name": "agent", "image": noted.image }, { "name": "runner", "image": noted.image },
        ])
    );
    assert_eq!(
        template["metadata"]["annotations"]["fairlead/version"],
        "0.2.0"
    );
    let back = deployment.patch(&noted, Some(&noted.former_image));
    let template = &back["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["fairlead/version"],
        "0.1.0"
    );
    assert_eq!(deployment.patch(&noted, None).get("spec"), None);
}

#[test]
fn upgrade_is_done_when_the_new_agent_sees_the_former_pods_gone() {
    let noted = open();
    let rolled_out = object(&noted.image, Some(&noted));
    let done = noted.ended(ClusterUpgradeState::Done, None);
    assert_eq!(
        decision(&rolled_out, &own("0.2.0"), START),
        Decision::Finish(done)
    );
    assert_eq!(
        decision(&rolled_out, &own("0.1.0"), START),
        Decision::Wait(noted.report()),
        "the former process ends soon"
    );
    for (path, value) in [
        ("/status/observedGeneration", json!(1)),
        ("/status/replicas", json!(2)),
        ("/status/updatedReplicas", json!(0)),
        ("/status/availableReplicas", json!(0)),
    ] {
        let running = set(rolled_out.clone(), path, value);
        assert_eq!(
            decision(&running, &own("0.2.0"), START),
            Decision::Wait(noted.report()),
            "{path}"
        );
    }
}

#[test]
fn pods_that_are_not_ready_in_time_lead_back() {
    let noted = open();
    let stuck = set(
        object(&noted.image, Some(&noted)),
        "/status/availableReplicas",
        json!(0),
    );
    let last = noted.deadline - Duration::seconds(1);
    assert_eq!(
        decision(&stuck, &own("0.1.0"), last),
        Decision::Wait(noted.report())
    );
    let back = noted.ended(ClusterUpgradeState::RolledBack, None);
    assert_eq!(
        decision(&stuck, &own("0.1.0"), noted.deadline),
        Decision::Return(back)
    );
}

#[test]
fn image_with_another_version_leads_back() {
    let noted = open();
    let rolled_out = object(&noted.image, Some(&noted));
    let Decision::Return(back) = decision(&rolled_out, &own("0.3.0"), START) else {
        panic!("no return");
    };
    assert_eq!(back.state, ClusterUpgradeState::RolledBack);
    assert!(
        back.cause
            .unwrap()
            .ends_with("the image has the version 0.3.0")
    );
}

#[test]
fn image_of_somebody_else_ends_the_upgrade_and_stays() {
    let other = object("reg:5000/fairlead:hotfix", Some(&open()));
    let Decision::Finish(ended) = decision(&other, &own("0.1.0"), START) else {
        panic!("not ended");
    };
    assert_eq!(ended.state, ClusterUpgradeState::Refused);
}

#[test]
fn present_image_needs_no_change() {
    let present = object(&desired().image, None);
    assert!(
        matches!(decision(&present, &own("0.2.0"), START), Decision::Report(it) if it.state == ClusterUpgradeState::Done)
    );
    assert!(matches!(
        decision(&present, &own("0.1.0"), START),
        Decision::Refuse(_)
    ));
    let rolling = set(present, "/status/replicas", json!(2));
    assert!(matches!(
        decision(&rolling, &own("0.1.0"), START),
        Decision::Wait(_)
    ));
}

#[test]
fn site_operator_decides_about_images() {
    let rule = |rule| AgentSelf {
        version: "0.1.0".to_owned(),
        rule,
    };
    let other = object("elsewhere/fairlead:0.1.0", None);
    for (object, rule_, refused) in [
        (&other, UpgradeRule::SameRepository, true),
        (&other, UpgradeRule::Any, false),
        (&other, UpgradeRule::Off, true),
        (&object(FORMER, None), UpgradeRule::Off, true),
        (
            &object("reg:5000/fairlead@sha256:01", None),
            UpgradeRule::SameRepository,
            false,
        ),
        (
            &object("reg:5000/fairlead", None),
            UpgradeRule::SameRepository,
            false,
        ),
    ] {
        let decision = decision(object, &rule(rule_), START);
        let is_refused = matches!(decision, Decision::Refuse(_));
        assert_eq!(is_refused, refused, "{rule_:?}: {decision:?}");
    }
}

#[test]
fn deployment_that_cannot_return_is_refused() {
    for (path, value) in [
        ("/spec/strategy/rollingUpdate/maxUnavailable", json!("25%")),
        ("/spec/strategy/type", json!("Recreate")),
    ] {
        let unsafe_ = set(object(FORMER, None), path, value);
        let decision = decision(&unsafe_, &own("0.1.0"), START);
        assert!(matches!(decision, Decision::Refuse(_)), "{path}");
    }
    let mut paused = object(FORMER, None);
    paused["spec"]["paused"] = json!(true);
    let decision = decision(&paused, &own("0.1.0"), START);
    assert_eq!(
        decision,
        Decision::Refuse("the Deployment is paused".to_owned())
    );
}

#[test]
fn object_without_an_agent_is_unusable() {
    let renamed = set(
        object(FORMER, None),
        "/spec/template/spec/containers/0/name",
        json!("x"),
    );
    assert_eq!(AgentDeployment::read(&renamed), None);
    assert_eq!(AgentDeployment::read(&json!({})), None);
}
