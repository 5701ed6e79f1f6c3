//! Policy `repair`: changes that a GitOps tool makes of itself, returns to the last good state, pauses, Events.

use fairlead_api::Code;
use fairlead_manifests::ObjectKey;

use super::*;

const TOOL: &str = "kustomize-controller";
const NAMESPACE: &str = "/api/v1/namespaces/shop";

impl Rig {
    /// A deployment of a tool that works.
    async fn of_tool() -> Self {
        let mut rig = Rig::start(DriftPolicy::Repair).await;
        rig.set_available(2);
        rig.settle().await;
        rig
    }

    fn set_available(&self, replicas: u64) {
        let status = json!({
            "observedGeneration": 1, "replicas": replicas.max(2), "updatedReplicas": replicas.max(2),
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{"type": "Available", "status": if replicas > 0 { "True" } else { "False" }}],
        });
        self.cluster.set_status(WEB, status);
    }

    /// Reasons and messages of the Events.
    fn announced(&self) -> Vec<String> {
        let events = self
            .cluster
            .objects_below("/api/v1/namespaces/shop/events/");
        let text = |it: &Value| {
            let kind = it["involvedObject"]["kind"].as_str().unwrap();
            let reason = it["reason"].as_str().unwrap();
            format!("{kind} {reason}: {}", it["message"].as_str().unwrap())
        };
        events.iter().map(text).collect()
    }

    async fn last_good(&mut self) -> Vec<(ObjectKey, Value)> {
        self.next(|event| match event {
            DriftEvent::LastGood(objects) => Some(objects.clone()),
            _ => None,
        })
        .await
    }

    async fn rolled_back(&mut self) -> RollbackNote {
        self.next(|event| match event {
            DriftEvent::RolledBack { rollbacks, .. } => Some(rollbacks.clone()),
            _ => None,
        })
        .await
    }

    fn image(&self) -> Value {
        self.cluster.get_now(WEB).unwrap()["spec"]["image"].clone()
    }

    fn upgrade(&self, image: &str) {
        self.cluster
            .edit(WEB, TOOL, |it| it["spec"]["image"] = json!(image));
    }

    fn pause(&self, value: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "shop", "annotations": {"fairlead/paused": value}},
        });
        self.cluster.apply_now(NAMESPACE, "kubectl", &namespace);
    }
}

#[tokio::test(start_paused = true)]
async fn working_change_of_the_tool_becomes_the_last_good_state() {
    let mut rig = Rig::of_tool().await;
    let start = Instant::now();
    rig.cluster.edit(WEB, TOOL, |it| {
        it["spec"]["image"] = json!("two");
        it["spec"]["replicas"] = json!(3);
    });
    rig.set_available(3);
    let good = rig.last_good().await;
    assert!(
        start.elapsed() >= Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(good.len(), 1);
    assert_eq!(good[0].1["spec"], json!({"image": "two", "replicas": 3}));
    assert!(
        good[0].1.get("status").is_none() && good[0].1["metadata"].get("managedFields").is_none()
    );
    assert_eq!(rig.image(), "two");
    assert!(rig.announced().is_empty(), "{:?}", rig.announced());
}

#[tokio::test(start_paused = true)]
async fn edit_of_a_person_is_corrected_beside_a_change_of_the_tool() {
    let mut rig = Rig::of_tool().await;
    rig.upgrade("two");
    rig.cluster
        .edit(WEB, "kubectl-edit", |it| it["spec"]["replicas"] = json!(7));
    assert_eq!(rig.corrected().await, 1);
    let spec = rig.cluster.get_now(WEB).unwrap()["spec"].clone();
    assert_eq!(spec, json!({"image": "two", "replicas": 2}));
    let expected = "Deployment Repaired: .spec.replicas: 7 to 2 (changed by kubectl-edit)";
    assert_eq!(rig.announced(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn deleted_object_is_made_again_with_one_event() {
    let mut rig = Rig::of_tool().await;
    let start = Instant::now();
    rig.cluster.remove(WEB);
    rig.corrected().await;
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(rig.cluster.get_now(WEB).unwrap()["spec"]["replicas"], 2);
    rig.set_available(2);
    rig.settle().await;
    assert_eq!(rig.announced(), ["Deployment Repaired: it did not exist"]);
}

#[tokio::test(start_paused = true)]
async fn broken_change_of_the_tool_is_taken_back_with_all_of_its_fields() {
    let mut rig = Rig::of_tool().await;
    let start = Instant::now();
    rig.upgrade("bad");
    rig.set_available(0);
    let note = rig.rolled_back().await;
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(note.count, 1);
    assert_eq!(
        rig.image(),
        Value::Null,
        "a field of the tool alone is removed"
    );
    let announced = rig.announced();
    assert_eq!(announced.len(), 1, "{announced:?}");
    assert!(
        announced[0].starts_with("Deployment RolledBack: Deployment shop/web "),
        "{announced:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_change_is_taken_back_three_times_and_then_an_alarm() {
    let mut rig = Rig::of_tool().await;
    rig.set_available(0);
    for count in 1..=3 {
        rig.upgrade("bad");
        assert_eq!(rig.rolled_back().await.count, count);
    }
    rig.upgrade("bad");
    let alarm = rig.next(|event| match event {
        DriftEvent::Blocked(failure) => failure.clone(),
        _ => None,
    });
    assert_eq!(alarm.await.code, Code::GitOpsRollbackStopped);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(rig.image(), "bad", "nobody fights");
    // Another version is judged anew.
    rig.upgrade("good");
    rig.set_available(2);
    rig.last_good().await;
    assert_eq!(rig.image(), "good");
}

#[tokio::test(start_paused = true)]
async fn annotation_of_the_namespace_pauses_until_it_goes() {
    let mut rig = Rig::of_tool().await;
    rig.pause("true");
    rig.edit_map("9");
    let paused = rig.next(|event| match event {
        DriftEvent::Drifted { failure, .. } => failure
            .clone()
            .filter(|it| it.code == Code::GitOpsRepairPaused),
        _ => None,
    });
    let cause = paused.await.cause;
    assert!(cause.starts_with("Namespace shop "), "{cause}");
    rig.upgrade("bad");
    rig.set_available(0);
    sleep(Duration::from_secs(600)).await;
    assert_eq!((rig.value(), rig.image()), (json!("9"), json!("bad")));
    assert_eq!(rig.corrections(), 0);
    rig.pause("false");
    let start = Instant::now();
    let (mut is_corrected, mut is_back) = (false, false);
    while !(is_corrected && is_back) {
        let event = rig.next(|event| Some(event.clone())).await;
        is_corrected |=
            matches!(&event, DriftEvent::Corrected { objects, .. } if !objects.is_empty());
        is_back |= matches!(event, DriftEvent::RolledBack { .. });
    }
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    assert_eq!((rig.value(), rig.image()), (json!("1"), Value::Null));
}

#[tokio::test(start_paused = true)]
async fn annotation_of_an_object_pauses_this_object_only() {
    let mut rig = Rig::of_tool().await;
    rig.cluster.edit(MAP, "kubectl-edit", |it| {
        it["metadata"]["annotations"] = json!({"fairlead/paused": "true"});
        it["data"]["a"] = json!("9");
    });
    rig.cluster
        .edit(WEB, "kubectl-edit", |it| it["spec"]["replicas"] = json!(7));
    rig.corrected().await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.value(), "9");
    assert_eq!(rig.cluster.get_now(WEB).unwrap()["spec"]["replicas"], 2);
    assert_eq!(rig.announced().len(), 1, "{:?}", rig.announced());
}

#[tokio::test(start_paused = true)]
async fn missing_right_to_write_events_holds_back_no_repair() {
    let mut rig = Rig::of_tool().await;
    rig.cluster
        .set_fault(|verb, _| (verb == "create").then(|| refused(403, "forbidden")));
    rig.edit_map("9");
    rig.corrected().await;
    assert_eq!(rig.value(), "1");
    assert!(rig.announced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn paused_object_keeps_a_broken_change() {
    let mut rig = Rig::of_tool().await;
    rig.cluster.edit(WEB, "kubectl-annotate", |it| {
        it["metadata"]["annotations"] = json!({"fairlead/paused": "true"});
    });
    rig.upgrade("bad");
    rig.set_available(0);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.image(), "bad");
    rig.cluster.edit(WEB, "kubectl-annotate", |it| {
        it["metadata"]["annotations"] = json!({});
    });
    rig.rolled_back().await;
    assert_eq!(rig.image(), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn field_that_the_tool_adds_to_an_object_without_health_is_noticed() {
    let mut rig = Rig::of_tool().await;
    rig.cluster
        .edit(MAP, TOOL, |it| it["data"]["c"] = json!("3"));
    let good = rig.last_good().await;
    assert_eq!(good[0].1["data"], json!({"a": "1", "b": "2", "c": "3"}));
}
