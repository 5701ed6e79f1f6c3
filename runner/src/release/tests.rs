use serde_json::{Value, json};

use super::*;

const RUN: &str = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV";
const OTHER: &str = "run-01ARZ3NDEKTSV4RRFFQ69G5FAW";

const MANIFEST: &str = "---
# Source: shop/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  octal: 0644
---
# Source: shop/templates/empty.yaml
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: other}
";

fn secret(number: u32, status: &str, run: Option<&str>) -> Value {
    let mut labels = json!({
        "owner": "helm", "name": "shop", "status": status, "version": number.to_string(), "modifiedAt": "1",
    });
    if let Some(run) = run {
        labels["fairlead-run"] = json!(run);
    }
    json!({"metadata": {
        "name": format!("sh.helm.release.v1.shop.v{number}"), "resourceVersion": "7", "labels": labels,
    }})
}

fn record(status: &str) -> Record {
    let json = json!({
        "name": "shop", "version": 2, "namespace": "shop", "manifest": MANIFEST,
        "info": {"status": status, "description": "Preparing upgrade", "first_deployed": "2026-11-24T02:00:00Z"},
        "config": {"big": 18_446_744_073_709_551_615_u64, "float": 1.5, "empty": null},
        "hooks": [{"name": "job", "manifest": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\n"}],
    });
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut writer, json.to_string().as_bytes()).unwrap();
    use base64::{Engine, engine::general_purpose::STANDARD};
    let data = STANDARD.encode(STANDARD.encode(writer.finish().unwrap()));
    Record::decode(&data).unwrap()
}

fn judged(
    revisions: &[(u32, &str, Option<&str>)],
    before: Option<u32>,
    work: Work,
    process: ProcessState,
) -> Judgement {
    let items: Vec<Value> = revisions
        .iter()
        .map(|(n, status, run)| secret(*n, status, *run))
        .collect();
    let attempt = Attempt {
        run: RUN.parse().unwrap(),
        work,
        before,
        process,
    };
    judge(&history(&"shop".parse().unwrap(), &items), &attempt)
}

#[test]
fn metadata_of_other_secrets_is_no_revision() {
    let foreign =
        json!({"metadata": {"name": "db", "resourceVersion": "1", "labels": {"owner": "helm"}}});
    let mut other_release = secret(3, "deployed", None);
    other_release["metadata"]["labels"]["name"] = json!("shop2");
    let items = [
        secret(10, "deployed", Some(RUN)),
        foreign,
        other_release,
        secret(9, "superseded", None),
    ];
    let found = history(&"shop".parse().unwrap(), &items);
    let numbers: Vec<_> = found.iter().map(|it| (it.number, it.status)).collect();
    assert_eq!(
        numbers,
        [
            (9, ReleaseStatus::Superseded),
            (10, ReleaseStatus::Deployed)
        ]
    );
    assert_eq!(found[1].run.as_ref().unwrap().as_str(), RUN);
}

#[test]
fn upgrade_is_judged_by_its_newest_revision() {
    use ProcessState::{Alive, Dead};
    let upgrade =
        |revisions: &[_], before, process| judged(revisions, before, Work::UpgradeInstall, process);
    let old = (1, "deployed", Some(OTHER));
    assert_eq!(upgrade(&[], None, Dead), Judgement::Start);
    assert_eq!(upgrade(&[old], Some(1), Dead), Judgement::Start);
    assert_eq!(upgrade(&[old], Some(1), Alive), Judgement::Attach);
    for pending in ["pending-install", "pending-upgrade", "pending-rollback"] {
        let found = upgrade(&[old, (2, pending, Some(RUN))], Some(1), Dead);
        assert!(
            matches!(found, Judgement::Unlock(it) if it.number == 2),
            "{pending}"
        );
    }
    let done = upgrade(
        &[(1, "superseded", Some(OTHER)), (2, "deployed", Some(RUN))],
        Some(1),
        Dead,
    );
    assert!(matches!(done, Judgement::Done(Some(it)) if it.number == 2));
    let failed = upgrade(&[old, (2, "failed", Some(RUN))], Some(1), Dead);
    assert!(matches!(failed, Judgement::Failed(it) if it.number == 2));
    for status in ["deployed", "pending-upgrade", "failed"] {
        for run in [None, Some(OTHER)] {
            let foreign = upgrade(&[old, (2, status, run)], Some(1), Dead);
            assert!(matches!(foreign, Judgement::SomebodyElse(it) if it.number == 2));
        }
    }
    // Our revision, and one of somebody else behind it.
    let newer = upgrade(
        &[(2, "superseded", Some(RUN)), (3, "deployed", None)],
        Some(1),
        Dead,
    );
    assert!(matches!(newer, Judgement::SomebodyElse(it) if it.number == 3));
}

#[test]
fn revision_with_copied_labels_is_somebody_elses() {
    let mut attempt = secret(2, "deployed", Some(RUN));
    attempt["metadata"]["labels"]["fairlead-attempt"] = json!("2");
    attempt["metadata"]["labels"]["fairlead-bundle"] = json!("b-shop");
    let mut first = secret(1, "failed", Some(RUN));
    first["metadata"]["labels"]["fairlead-attempt"] = json!("1");
    let mut copy = attempt.clone();
    copy["metadata"]["name"] = json!("sh.helm.release.v1.shop.v3");
    copy["metadata"]["labels"]["version"] = json!("3");
    copy["metadata"]["labels"]["status"] = json!("pending-upgrade");
    let found = history(&"shop".parse().unwrap(), &[copy, attempt, first]);
    let by_run: Vec<_> = found.iter().map(Revision::is_by_run).collect();
    assert_eq!(by_run, [true, true, false]);
    assert_eq!(found[1].attempt, Some(2));
    assert_eq!(found[1].bundle.as_deref(), Some("b-shop"));
    for before in [1, 3] {
        let attempt = Attempt {
            run: RUN.parse().unwrap(),
            work: Work::UpgradeInstall,
            before: Some(before),
            process: ProcessState::Dead,
        };
        let judgement = judge(&found, &attempt);
        assert!(matches!(judgement, Judgement::SomebodyElse(it) if it.number == 3));
    }
}

#[test]
fn failed_hook_and_values_are_read() {
    let mut record = record("failed");
    assert_eq!(record.failed_hook(), None);
    assert_eq!(record.values()["float"], json!(1.5));
    record.json_mut()["hooks"][0]["kind"] = json!("Job");
    record.json_mut()["hooks"][0]["last_run"] = json!({"phase": "Failed"});
    assert_eq!(record.failed_hook(), Some(("Job", "job")));
}

#[test]
fn pending_revision_from_before_is_unlocked_only_if_a_run_made_it() {
    let dead = ProcessState::Dead;
    let ours = judged(
        &[(1, "pending-install", Some(OTHER))],
        Some(1),
        Work::UpgradeInstall,
        dead,
    );
    assert!(matches!(ours, Judgement::Unlock(_)));
    let foreign = judged(
        &[(1, "pending-install", None)],
        Some(1),
        Work::UpgradeInstall,
        dead,
    );
    assert!(matches!(foreign, Judgement::SomebodyElse(_)));
}

#[test]
fn rollback_is_known_by_its_target_since_its_label_is_that_of_the_target() {
    let items = [
        secret(1, "superseded", Some(OTHER)),
        secret(2, "deployed", Some(OTHER)),
    ];
    let mut revisions = history(&"shop".parse().unwrap(), &items);
    let attempt = |to| Attempt {
        run: RUN.parse().unwrap(),
        work: Work::Rollback { to },
        before: Some(1),
        process: ProcessState::Dead,
    };
    assert!(matches!(
        judge(&revisions, &attempt(1)),
        Judgement::SomebodyElse(_)
    ));
    revisions[1].rolled_back_to = Some(1);
    assert!(matches!(
        judge(&revisions, &attempt(1)),
        Judgement::Done(Some(_))
    ));
    assert!(matches!(
        judge(&revisions, &attempt(3)),
        Judgement::SomebodyElse(_)
    ));
    // A rollback by hand to a revision of this run is no upgrade by it.
    let upgrade = Attempt {
        run: OTHER.parse().unwrap(),
        work: Work::UpgradeInstall,
        ..attempt(1)
    };
    assert!(matches!(
        judge(&revisions, &upgrade),
        Judgement::SomebodyElse(_)
    ));
}

#[test]
fn removal_is_done_once_no_record_is_left() {
    let remove =
        |revisions: &[_], before| judged(revisions, before, Work::Uninstall, ProcessState::Unknown);
    assert_eq!(remove(&[], Some(4)), Judgement::Done(None));
    assert_eq!(
        remove(&[(4, "uninstalling", Some(OTHER))], Some(4)),
        Judgement::Start
    );
    assert_eq!(
        remove(&[(4, "uninstalled", Some(OTHER))], Some(4)),
        Judgement::Done(None)
    );
    let newer = remove(&[(5, "deployed", None)], Some(4));
    assert!(matches!(newer, Judgement::SomebodyElse(_)));
}

#[test]
fn record_survives_its_encoding_with_another_status_only() {
    let record = record("pending-upgrade");
    let revision = Revision::of_object(&secret(2, "pending-upgrade", Some(RUN))).unwrap();
    let patch = record
        .unlock_patch(&revision, "program was killed", 1_795_000_000)
        .unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(
        patch["metadata"]["labels"],
        json!({"status": "failed", "modifiedAt": "1795000000"})
    );
    let failed = Record::of_secret(&patch).unwrap();
    assert_eq!(
        (failed.status(), failed.description()),
        (ReleaseStatus::Failed, "program was killed")
    );
    assert_eq!(failed.manifest(), record.manifest());
    let again = Record::decode(&record.encode().unwrap()).unwrap();
    assert_eq!(again, record);
}

#[test]
fn manifest_of_a_record_is_replaced_alone() {
    let before = record("superseded");
    let revision = Revision::of_object(&secret(2, "superseded", Some(RUN))).unwrap();
    let patch = before.manifest_patch(&revision, "a: b\n").unwrap();
    assert_eq!(
        patch["metadata"],
        json!({"resourceVersion": revision.resource_version})
    );
    let mut after = Record::of_secret(&patch).unwrap();
    assert_eq!(after.manifest(), "a: b\n");
    after.json_mut()["manifest"] = json!(MANIFEST);
    assert_eq!(after, before);
    let other = Revision::of_object(&secret(3, "superseded", Some(RUN))).unwrap();
    assert!(before.manifest_patch(&other, "").is_err());
}

#[test]
fn revision_that_is_not_pending_is_not_unlocked() {
    let revision = Revision::of_object(&secret(2, "deployed", Some(RUN))).unwrap();
    let refused = record("deployed").unlock_patch(&revision, "", 0);
    assert!(matches!(refused, Err(RecordError::NotPending)));
    let other = Revision::of_object(&secret(3, "pending-upgrade", Some(RUN))).unwrap();
    let refused = record("pending-upgrade").unlock_patch(&other, "", 0);
    assert!(matches!(refused, Err(RecordError::NotPending)));
}

#[test]
fn objects_of_a_manifest_are_listed_without_hooks() {
    let record = record("deployed");
    let object = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| ObjectRef {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: namespace.map(str::to_owned),
        name: name.into(),
    };
    assert_eq!(
        record.objects().unwrap(),
        [
            object("v1", "ConfigMap", None, "settings"),
            object("apps/v1", "Deployment", Some("other"), "web")
        ]
    );
    assert_eq!(
        record.hook_objects().unwrap(),
        [object("batch/v1", "Job", None, "job")]
    );
}

#[test]
fn damaged_records_are_errors() {
    for bad in ["", "x", "bm90IGJhc2U2NCE=", "e30=", "ZTMwPQ=="] {
        assert!(Record::decode(bad).is_err(), "{bad:?}");
    }
    assert!(matches!(
        Record::of_secret(&json!({})),
        Err(RecordError::Missing)
    ));
}
