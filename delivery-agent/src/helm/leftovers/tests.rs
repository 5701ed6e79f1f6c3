//! Runs against a fake API server whose release has failed revisions. No Helm runs: the newest revision has the content.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Method;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use fairlead_api::{
    Code,
    delivery::{RunKind, RunOrigin},
};
use fairlead_bundle::spec_id;
use fairlead_runner::{RunKey, Runner, release_description, spec_label};
use http::{Request, Response};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::super::{
    note::{HelmNote, HelmStep, HelmWork, RunnerMark},
    release::Release,
    testing::{self, OTHER_RUN, RUN, record_secret},
};
use crate::{
    HubConnection, HubUnreachable, ProcessIdentity,
    content::ContentCache,
    engine::{
        CancelSignal, FailureClass, RunContext, RunFailure, RunLog, SecretValues, SiteLimits,
    },
    fence::{AccountName, FencedAttempt, Fences, LockPlace},
    journal::{Journal, PendingRun},
    testing::{FakeApi, status},
};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps/";
const SECRETS: &str = "/api/v1/namespaces/shop/secrets/";

struct NoHub;

#[async_trait]
impl HubConnection for NoHub {
    async fn send(&self, _: Request<Bytes>, _: usize) -> Result<Response<Bytes>, HubUnreachable> {
        Err(HubUnreachable("away".to_owned()))
    }
}

struct Rig {
    api: FakeApi,
    run: RunContext,
    runner: Runner,
    lock: LockPlace,
}

impl Rig {
    async fn start() -> Self {
        let api = FakeApi::start().await;
        for name in ["fairlead-delivery", "shop"] {
            let namespace = json!({"metadata": {"name": name}});
            api.put(&format!("/api/v1/namespaces/{name}"), namespace);
        }
        let account = "/api/v1/namespaces/fairlead-delivery/serviceaccounts/deployer";
        api.put(account, json!({"metadata": {"name": "deployer"}}));
        let process = ProcessIdentity::of_pod("a");
        let (spec, run) = (testing::spec(), RUN.parse().unwrap());
        let attempt = FencedAttempt {
            bundle: &spec.bundle,
            run: &run,
            attempt: 1,
        };
        let fences = Fences::new(api.client(), Arc::new(process.clone()));
        let account = AccountName::parse("deployer").unwrap();
        let fence = fences.acquire(attempt, &account).await.unwrap();
        let run = RunContext {
            run,
            attempt: 1,
            generation: 1,
            spec_id: spec_id(&spec).0,
            confirmed: false,
            kube: fence.kube.clone(),
            token: fence.token.clone(),
            user: fence.user.clone(),
            discovery: api.discovery(),
            content: ContentCache::new(Arc::new(NoHub), None),
            journal: Journal::new(api.client(), spec.bundle.clone(), &process),
            spec: Arc::new(spec),
            interrupted: None,
            log: RunLog::default(),
            cancel: CancelSignal::new().1,
            secrets: SecretValues::default(),
            site: Arc::new(SiteLimits::default()),
        };
        Self {
            api,
            run,
            runner: Runner::at("/nowhere/socket"),
            lock: fence.lock.clone(),
        }
    }

    /// Writes a revision of a run with these ConfigMaps, as Helm does.
    fn revision(&self, number: u32, state: &str, maps: &[&str]) {
        let maps: Vec<_> = maps.iter().map(|name| map(name)).collect();
        self.revision_of(number, state, &maps.join("---\n"), json!({}));
    }

    /// As [`Rig::revision`], with any objects and with further fields of the record.
    fn revision_of(&self, number: u32, state: &str, manifest: &str, more: Value) {
        let key = RunKey {
            run: OTHER_RUN.parse().unwrap(),
            attempt: number,
        };
        let attempt = number.to_string();
        let label = spec_label(&self.run.spec_id);
        let labels = [
            ("fairlead-run", OTHER_RUN),
            ("fairlead-attempt", attempt.as_str()),
            ("fairlead-bundle", "b-web"),
            ("fairlead-spec", label.as_str()),
        ];
        let mut record = json!({
            "name": "web", "namespace": "shop", "version": number, "manifest": manifest, "config": {},
            "info": {"status": state, "description": match state {
                "failed" => "Fairlead: the program was killed".to_owned(),
                _ => release_description(&key),
            }},
        });
        merge(&mut record, more);
        let packed = STANDARD.encode(STANDARD.encode(record.to_string()));
        let mut secret = record_secret(number, state, &labels);
        secret["data"] = json!({"release": packed});
        let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
        self.api.put(&format!("{SECRETS}{name}"), secret);
    }

    /// An object in the cluster that Helm has applied.
    fn live(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let name = path.rsplit('/').next().unwrap();
        let mut object = json!({"metadata": {
            "name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"},
        }});
        change(&mut object);
        self.api.put(path, object);
    }

    fn live_map(&self, name: &str) {
        self.live(&format!("{MAPS}{name}"), |_| {});
    }

    /// Names of the ConfigMaps in the cluster.
    fn maps(&self) -> Vec<String> {
        let paths = self.api.paths(MAPS);
        paths.iter().map(|it| it[MAPS.len()..].to_owned()).collect()
    }

    /// A run; its requests that are not about the journal or the kinds.
    async fn sync(&self) -> (Result<(), RunFailure>, Vec<String>) {
        self.api.take_requests();
        let upstream = self.api.upstream();
        let release = Release::of(&self.run, &self.runner, &upstream).unwrap();
        let result = release.sync().await.map(drop);
        let mut requests = self.api.take_requests();
        requests.retain(|it| it.contains("/namespaces/shop/") || it.contains("/namespaces/x"));
        (result, requests)
    }

    fn log(&self) -> String {
        self.run.log.finish();
        String::from_utf8(self.run.log.take(usize::MAX).1).unwrap()
    }

    /// Notes the step of a program of an interrupted run, which has ended.
    async fn interrupt(&mut self, number: u32, work: HelmWork) {
        let step = HelmStep {
            key: format!("{OTHER_RUN}.{number}").parse().unwrap(),
            work,
            before: Some(number - 1),
            runner: RunnerMark {
                instance: "a".into(),
                place: "b".into(),
            },
        };
        self.run.interrupted = Some(PendingRun {
            run: step.key.run.clone(),
            attempt: number,
            kind: RunKind::Sync,
            origin: RunOrigin::Desired,
            generation: self.run.generation,
            step: String::new(),
            lock: self.lock.clone(),
            process: ProcessIdentity::of_pod("a"),
            started_at: OffsetDateTime::UNIX_EPOCH,
        });
        let journal = &self.run.journal;
        let noted = journal.update(|state| state.record.helm.step = Some(step));
        noted.await.unwrap();
    }

    async fn note(&self) -> HelmNote {
        self.run.journal.state().await.record.helm
    }
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

fn merge(record: &mut Value, more: Value) {
    for (name, value) in more.as_object().unwrap() {
        match (record.get_mut(name), value.as_object()) {
            (Some(Value::Object(old)), Some(new)) => old.extend(new.clone()),
            _ => record[name] = value.clone(),
        }
    }
}

#[tokio::test]
async fn object_of_a_killed_upgrade_is_deleted_after_the_next_one() {
    let rig = Rig::start().await;
    rig.revision(1, "superseded", &["a"]);
    rig.revision(2, "failed", &["a", "b"]);
    rig.revision(3, "deployed", &["a"]);
    ["a", "b", "other"].iter().for_each(|it| rig.live_map(it));
    rig.sync().await.0.unwrap();
    assert_eq!(rig.maps(), ["a", "other"]);
}

#[tokio::test]
async fn release_without_failed_revisions_needs_no_further_request() {
    let rig = Rig::start().await;
    rig.revision(1, "superseded", &["a", "b"]);
    rig.revision(2, "deployed", &["a"]);
    ["a", "b"].iter().for_each(|it| rig.live_map(it));
    let newest = format!("GET {SECRETS}sh.helm.release.v1.web.v2");
    let history = format!("GET {}", SECRETS.trim_end_matches('/'));
    let (result, requests) = rig.sync().await;
    result.unwrap();
    assert_eq!(requests, [history, newest]);
    assert_eq!(rig.maps(), ["a", "b"]);
    assert_eq!(rig.note().await.cleaned, None);
}

#[tokio::test]
async fn clean_release_is_examined_once() {
    let rig = Rig::start().await;
    rig.revision(1, "failed", &["b"]);
    rig.revision(2, "deployed", &["a"]);
    rig.live_map("b");
    rig.sync().await.0.unwrap();
    assert_eq!(rig.note().await.cleaned, Some(2));
    rig.live_map("b");
    let (result, requests) = rig.sync().await;
    result.unwrap();
    assert_eq!(requests.len(), 2, "{requests:?}");
    // A later failure is examined again.
    rig.revision(3, "failed", &["c"]);
    rig.revision(4, "deployed", &["a"]);
    rig.live_map("c");
    rig.sync().await.0.unwrap();
    assert_eq!(rig.maps(), ["b"]);
    let log = rig.log();
    assert!(log.contains("deleted ConfigMap shop/c"), "{log}");
}

#[tokio::test]
async fn run_that_was_killed_before_the_deletion_deletes() {
    let mut rig = Rig::start().await;
    rig.revision(1, "superseded", &["a"]);
    rig.revision(2, "failed", &["b"]);
    rig.revision(3, "deployed", &["a"]);
    rig.live_map("b");
    let path = format!("{MAPS}b");
    let refused = path.clone();
    rig.api.set_fault(move |method, path, _| {
        let is_delete = method == Method::DELETE && path == refused;
        is_delete.then(|| status(500, "InternalError", "killed"))
    });
    rig.interrupt(3, HelmWork::UpgradeInstall).await;
    let failure = rig.sync().await.0.unwrap_err();
    assert_eq!(failure.class, FailureClass::Retry, "{failure}");
    let note = rig.note().await;
    assert_eq!((note.step, note.cleaned), (None, None));
    rig.api.clear_fault();
    rig.sync().await.0.unwrap();
    assert_eq!(rig.api.get(&path), None);
    assert_eq!(rig.note().await.cleaned, Some(3));
}

#[tokio::test]
async fn return_that_was_killed_before_the_deletion_deletes() {
    let mut rig = Rig::start().await;
    rig.revision(1, "superseded", &["a"]);
    rig.revision(2, "failed", &["b"]);
    rig.revision(3, "failed", &["c"]);
    let info = json!({"info": {"rollback_revision": 1, "description": "Rollback to 1"}});
    rig.revision_of(4, "deployed", &map("a"), info);
    ["a", "b"].iter().for_each(|it| rig.live_map(it));
    rig.interrupt(4, HelmWork::Rollback(1)).await;
    let failure = rig.sync().await.0.unwrap_err();
    assert_eq!(failure.code, Code::HelmRolledBack, "{failure}");
    assert_eq!(rig.maps(), ["a"]);
    assert_eq!(rig.note().await.cleaned, Some(4));
}

#[tokio::test]
async fn objects_of_others_and_data_stay() {
    let rig = Rig::start().await;
    let names = ["adopted", "kept", "foreign", "unlabelled", "gone", "late"];
    let mut manifest: Vec<_> = names.iter().map(|it| map(it)).collect();
    manifest.push("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n".to_owned());
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x}\n";
    manifest.push(claim.to_owned());
    rig.revision(1, "superseded", &["a"]);
    rig.revision_of(2, "failed", &manifest.join("---\n"), json!({}));
    rig.revision(3, "deployed", &["a"]);
    let live = |name: &str, at: &'static str, value: Value| {
        rig.live(&format!("{MAPS}{name}"), |it| {
            *it.pointer_mut("/metadata").unwrap() = {
                let mut metadata = it["metadata"].clone();
                let (map, name) = at.split_once(' ').unwrap();
                metadata[map][name] = value;
                metadata
            };
        });
    };
    live("adopted", "labels fairlead/bundle", json!("b-other"));
    live("kept", "annotations helm.sh/resource-policy", json!("keep"));
    let release = "annotations meta.helm.sh/release-name";
    live("foreign", release, json!("other"));
    let manager = "labels app.kubernetes.io/managed-by";
    live("unlabelled", manager, json!(null));
    rig.live_map("late");
    rig.live("/api/v1/namespaces/x", |_| {});
    let claim = "/api/v1/namespaces/shop/persistentvolumeclaims/x";
    rig.live(claim, |_| {});
    rig.sync().await.0.unwrap();
    assert_eq!(rig.maps(), ["adopted", "foreign", "kept", "unlabelled"]);
    assert!(rig.api.get("/api/v1/namespaces/x").is_some());
    assert!(rig.api.get(claim).is_some());
    let log = rig.log();
    for line in [
        "deleted ConfigMap shop/late",
        "kept ConfigMap shop/adopted belongs to bundle b-other",
        "kept ConfigMap shop/foreign is not part of the release",
        "kept ConfigMap shop/kept has the annotation helm.sh/resource-policy: keep",
        "kept ConfigMap shop/unlabelled is not part of the release",
        "kept Namespace x may hold data; delete it by hand",
        "kept PersistentVolumeClaim shop/x may hold data; delete it by hand",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[tokio::test]
async fn object_is_deleted_with_its_uid() {
    let rig = Rig::start().await;
    rig.revision(1, "failed", &["b"]);
    rig.revision(2, "deployed", &["a"]);
    rig.live_map("b");
    let api = rig.api.clone();
    // Somebody makes the object again between the read and the deletion.
    rig.api.set_fault(move |method, path, body| {
        let is_delete = method == Method::DELETE && path.starts_with(MAPS);
        is_delete.then(|| {
            assert!(body["preconditions"]["uid"].is_string(), "{body}");
            status(
                409,
                "Conflict",
                "the UID in the precondition does not match",
            )
        })
    });
    rig.sync().await.0.unwrap();
    assert!(api.get(&format!("{MAPS}b")).is_some());
}

#[tokio::test]
async fn objects_of_hooks_and_of_other_groups_are_of_the_release() {
    let rig = Rig::start().await;
    let ingress =
        |group: &str| format!("apiVersion: {group}/v1\nkind: Ingress\nmetadata: {{name: web}}\n");
    for group in ["extensions", "networking.k8s.io"] {
        let kind = (group, "v1", "ingresses", "Ingress");
        let kind = (
            kind.0.into(),
            kind.1.into(),
            kind.2.into(),
            kind.3.into(),
            true,
        );
        rig.api.world.lock().unwrap().kinds.push(kind);
    }
    rig.revision_of(
        1,
        "failed",
        &[map("hook"), ingress("extensions")].join("---\n"),
        json!({}),
    );
    let hooks = json!({"hooks": [{"name": "hook", "manifest": map("hook")}]});
    rig.revision_of(2, "deployed", &ingress("networking.k8s.io"), hooks);
    rig.live_map("hook");
    let path = "/apis/extensions/v1/namespaces/shop/ingresses/web";
    rig.live(path, |_| {});
    rig.sync().await.0.unwrap();
    assert_eq!(rig.maps(), ["hook"]);
    assert!(rig.api.get(path).is_some());
}

#[tokio::test]
async fn failed_rollback_and_the_revision_that_it_superseded_leave_objects() {
    let rig = Rig::start().await;
    let rolled_back =
        |description: &str| json!({"info": {"rollback_revision": 1, "description": description}});
    rig.revision(1, "superseded", &["a", "first"]);
    rig.revision(2, "deployed", &["a"]);
    let failed = json!({"info": {"description": "Upgrade \"web\" failed: no"}});
    rig.revision_of(3, "superseded", &map("second"), failed);
    let failed = rolled_back("Rollback \"web\" failed: no");
    rig.revision_of(4, "failed", &map("first"), failed);
    // A rollback copies the labels of its target.
    for path in rig.api.paths(SECRETS) {
        if path.ends_with(".v4") {
            rig.api.change(&path, |it| {
                it["metadata"]["labels"]["fairlead-attempt"] = json!("1");
            });
        }
    }
    rig.revision_of(5, "superseded", &map("third"), rolled_back("Rollback to 1"));
    rig.revision(6, "deployed", &["a"]);
    let names = ["a", "first", "second", "third"];
    names.iter().for_each(|it| rig.live_map(it));
    rig.sync().await.0.unwrap();
    // The third one was deployed: its successor in Helm has deleted, or kept, its objects.
    assert_eq!(rig.maps(), ["a", "third"]);
}

#[tokio::test]
async fn revisions_of_others_and_damaged_ones_leave_their_objects() {
    let rig = Rig::start().await;
    rig.revision(1, "superseded", &["a"]);
    rig.revision(2, "failed", &["damaged"]);
    rig.revision(3, "failed", &["foreign"]);
    rig.revision(4, "failed", &["copied"]);
    rig.revision(5, "deployed", &["a"]);
    let change = |number: u32, change: &dyn Fn(&mut Value)| {
        let path = format!("{SECRETS}sh.helm.release.v1.web.v{number}");
        rig.api.change(&path, change);
    };
    change(2, &|it| it["data"]["release"] = json!("?"));
    change(3, &|it| {
        it["metadata"]["labels"]["fairlead-bundle"] = json!("b-x")
    });
    change(4, &|it| {
        it["metadata"]["labels"]["fairlead-attempt"] = json!("3")
    });
    let names = ["copied", "damaged", "foreign"];
    names.iter().for_each(|it| rig.live_map(it));
    rig.sync().await.0.unwrap();
    assert_eq!(rig.maps(), names);
    let log = rig.log();
    assert!(log.contains("objects of revision 2 are not known"), "{log}");
}

#[tokio::test]
async fn note_of_a_release_that_was_removed_by_hand_does_not_count() {
    let rig = Rig::start().await;
    let update = rig
        .run
        .journal
        .update(|state| state.record.helm.cleaned = Some(7));
    update.await.unwrap();
    rig.revision(1, "failed", &["b"]);
    rig.revision(2, "deployed", &["a"]);
    rig.live_map("b");
    rig.sync().await.0.unwrap();
    assert!(rig.maps().is_empty());
    assert_eq!(rig.note().await.cleaned, Some(2));
}

#[tokio::test]
async fn refused_deletion_names_the_missing_right() {
    let rig = Rig::start().await;
    rig.revision(1, "failed", &["b"]);
    rig.revision(2, "deployed", &["a"]);
    rig.live_map("b");
    rig.api.set_fault(|method, _, _| {
        (method == Method::DELETE).then(|| status(403, "Forbidden", "no"))
    });
    let failure = rig.sync().await.0.unwrap_err();
    assert_eq!(failure.code, Code::MissingRight, "{failure}");
}
