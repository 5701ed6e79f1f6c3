use std::{borrow::Cow, sync::Arc, time::Duration};

use fairlead_api::BundleId;
use tokio::time::{Instant, sleep};

use super::*;
use crate::drift::tests::{FakeCluster, refused};

const PATH: &str = "/api/v1/namespaces/shop/secrets/db";
const USER: &str = "system:serviceaccount:fairlead-delivery:deployer";

fn secret(password: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "db"},
        "data": {"password": STANDARD.encode(password), "bytes": STANDARD.encode([0xff, 0xfe, 0, 1, 2, 3])},
    })
}

fn input(name: &str, key: &str, destination: &str) -> SecretInput {
    SecretInput {
        namespace: None,
        name: name.to_owned(),
        key: key.to_owned(),
        destination: destination.to_owned(),
    }
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::default();
    cluster.apply_now(PATH, "site", &secret("hunter2-hunter2"));
    cluster
}

async fn read(inputs: &[SecretInput]) -> Result<SecretInputs, SecretError> {
    SecretInputs::read(&cluster(), inputs, "shop", USER, &mut SecretVersions::new()).await
}

fn waits_with(error: SecretError) -> (Code, String) {
    match error {
        SecretError::Waiting(failure) => (failure.code, failure.cause),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn values_are_read_once_and_hidden() {
    let inputs = [
        input("db", "password", "values.db.auth.password"),
        input("db", "password", "vars.top"),
    ];
    let cluster = cluster();
    let mut versions = SecretVersions::new();
    let secrets = SecretInputs::read(&cluster, &inputs, "shop", USER, &mut versions)
        .await
        .unwrap();
    let texts = secrets.texts().unwrap();
    let texts: Vec<_> = texts
        .iter()
        .map(|it| (it.0, it.1.expose_secret()))
        .collect();
    assert_eq!(texts, [("db.auth.password", "hunter2-hunter2"),]);
    let vars: Vec<_> = secrets.vars().collect();
    assert_eq!(vars[0].0, "top");
    assert_eq!(vars[0].1.expose_secret(), b"hunter2-hunter2");
    assert_eq!(versions.len(), 1);
    assert_eq!(cluster.take_requests(), [format!("get {PATH}")]);
    let debug = format!("{secrets:?}");
    assert!(
        debug.contains("vars.top") && !debug.contains("hunter2"),
        "{debug}"
    );
    let masker = secrets.masker().unwrap();
    let masked = masker.mask("the password is hunter2-hunter2!");
    assert_eq!(masked, "the password is ***!");
}

#[tokio::test]
async fn values_that_are_no_text_or_too_large_are_named() {
    let unusable = |error: SecretError| match error {
        SecretError::Permanent(failure) => (failure.code, failure.cause),
        other => panic!("{other:?}"),
    };
    let secrets = read(&[input("db", "bytes", "values.a")]).await.unwrap();
    assert_eq!(
        unusable(secrets.texts().unwrap_err()),
        (
            Code::SecretUnusable,
            "key bytes of Secret shop/db is no UTF-8 text, as values.a needs it; keep base64 of it in the Secret".to_owned()
        )
    );
    let cluster = cluster();
    cluster.apply_now(PATH, "site", &secret(&"x".repeat(MAX_VALUES_BYTES + 1)));
    let inputs = [input("db", "password", "vars.a")];
    let mut versions = SecretVersions::new();
    let large = SecretInputs::read(&cluster, &inputs, "shop", USER, &mut versions);
    assert_eq!(
        unusable(large.await.unwrap_err()),
        (
            Code::SecretUnusable,
            "values of Secret shop/db take 65537 bytes; at most 65536 can be used".to_owned()
        )
    );
}

#[tokio::test]
async fn versions_are_known_before_an_error() {
    let inputs = [
        input("db", "password", "vars.a"),
        input("other", "a", "vars.b"),
        input("third", "a", "vars.c"),
    ];
    let mut versions = SecretVersions::new();
    let read = SecretInputs::read(&cluster(), &inputs, "shop", USER, &mut versions).await;
    assert!(read.is_err());
    let known: Vec<_> = versions
        .iter()
        .map(|(name, it)| (name.name.as_str(), it.is_some()))
        .collect();
    assert_eq!(known, [("db", true), ("other", false)]);
}

#[tokio::test]
async fn missing_secrets_and_keys_wait_with_a_sentence() {
    let error = read(&[input("db", "user", "vars.a")]).await.unwrap_err();
    assert_eq!(
        waits_with(error),
        (
            Code::SecretMissing,
            "Secret shop/db has no key user".to_owned()
        )
    );
    let error = read(&[input("other", "a", "vars.a")]).await.unwrap_err();
    assert_eq!(
        waits_with(error),
        (
            Code::SecretMissing,
            "Secret shop/other does not exist".to_owned()
        )
    );
}

#[tokio::test]
async fn forbidden_secret_names_the_rule() {
    let cluster = cluster();
    cluster.set_fault(|_, _| Some(refused(403, "forbidden")));
    let inputs = [input("db", "password", "vars.a")];
    let error = SecretInputs::read(&cluster, &inputs, "shop", USER, &mut SecretVersions::new())
        .await
        .unwrap_err();
    let (code, cause) = waits_with(error);
    assert_eq!(code, Code::SecretForbidden);
    assert!(
        cause.contains("Secret shop/db may not be read by system:serviceaccount:"),
        "{cause}"
    );
    assert!(cause.contains(r#""resourceNames":["db"]"#), "{cause}");
    cluster.set_fault(|_, _| Some(refused(503, "away")));
    let error = SecretInputs::read(&cluster, &inputs, "shop", USER, &mut SecretVersions::new())
        .await
        .unwrap_err();
    assert!(matches!(error, SecretError::Unavailable(_)), "{error:?}");
}

fn lookup(name: &str) -> Option<Cow<'static, Value>> {
    (name == "vars.user").then(|| Cow::Owned(json!("shop")))
}

const BINARY: &[u8] = &[0xff, 0xfe, 0, 1, 2, 3];

fn of_secret(name: &str) -> Option<&'static [u8]> {
    match name {
        "vars.password" => Some(b"hunter2-hunter2"),
        "vars.odd" => Some(b"a${vars.user}$${vars.user}"),
        "vars.bytes" => Some(BINARY),
        _ => None,
    }
}

fn replaced(mut object: Value) -> Result<Value, ReplaceError> {
    replace_variables(&mut object, &of_secret, &lookup).map(|()| object)
}

#[test]
fn variables_of_secrets_are_replaced_in_secrets() {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${vars.user}"},
        "data": {"a": "${vars.password}", "c": "eA=="},
        "stringData": {"url": "pg://${vars.user}:${vars.password}@db", "plain": "${HOME}", "odd": "${vars.odd}"},
    });
    let object = replaced(object).unwrap();
    assert_eq!(object["metadata"]["name"], "shop");
    assert_eq!(object["data"]["a"], STANDARD.encode("hunter2-hunter2"));
    assert_eq!(object["data"]["c"], "eA==");
    assert_eq!(object["stringData"]["url"], "pg://shop:hunter2-hunter2@db");
    assert_eq!(object["stringData"]["plain"], "${HOME}");
    // A value that looks like a variable stays.
    assert_eq!(object["stringData"]["odd"], "a${vars.user}$${vars.user}");
}

#[tokio::test]
async fn binary_values_reach_the_data_of_secrets_byte_for_byte() {
    let inputs = [input("db", "bytes", "vars.bytes")];
    let secrets = read(&inputs).await.unwrap();
    assert!(secrets.texts().unwrap().is_empty());
    let vars: Vec<_> = secrets.vars().collect();
    assert_eq!((vars[0].0, vars[0].1.expose_secret()), ("bytes", BINARY));
    let masked = secrets.masker().unwrap();
    let printed = format!("data: {}", STANDARD.encode(BINARY));
    assert_eq!(masked.mask(&printed), "data: ***");

    let with = |field: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, field: {"a": "${vars.bytes}"}});
    let object = replaced(with("data")).unwrap();
    assert_eq!(object["data"]["a"], STANDARD.encode(BINARY));
    let error = replaced(with("stringData")).unwrap_err();
    let cause =
        "Secret a uses ${vars.bytes} in stringData, and its value is no UTF-8 text; data takes it";
    assert_eq!(error, ReplaceError::NoText(cause.to_owned()));
}

#[test]
fn variables_of_secrets_are_refused_elsewhere() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x${vars.password}"}});
    let annotation = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "annotations": {"a": "${vars.password}"}}});
    let part = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "x${vars.password}"}});
    for object in [map, annotation, part] {
        let error = replaced(object.clone()).unwrap_err();
        assert!(
            matches!(error, ReplaceError::Misused(_)),
            "{object}: {error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("${vars.password}") && !text.contains("hunter2"),
            "{text}"
        );
    }
    let missing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "${vars.no}"}});
    let error = replaced(missing).unwrap_err();
    assert!(error.to_string().starts_with(".data.a: "), "{error}");
}

struct Rig {
    cluster: FakeCluster,
    changes: SecretChanges,
    received: tokio::sync::mpsc::Receiver<SecretChange>,
}

impl Rig {
    fn new(cluster: FakeCluster) -> Self {
        let (changes, received) = SecretChanges::new(Arc::new(cluster.clone()));
        Rig {
            cluster,
            changes,
            received,
        }
    }

    fn follow(&self, bundle: &str) {
        let secret = self.cluster.get_now(PATH);
        let name = SecretName {
            namespace: "shop".to_owned(),
            name: "db".to_owned(),
        };
        let version = secret.as_ref().and_then(SecretVersion::of);
        self.changes.follow(
            &bundle.parse::<BundleId>().unwrap(),
            "deployer",
            [(name, version)].into(),
        );
    }

    fn rotate(&self, password: &str) {
        self.cluster.apply_now(PATH, "site", &secret(password));
    }
}

#[tokio::test(start_paused = true)]
async fn rotation_is_a_change_for_each_deployment_once() {
    let mut rig = Rig::new(cluster());
    rig.follow("b-a");
    rig.follow("b-b");
    sleep(Duration::from_secs(5)).await;
    assert!(rig.received.try_recv().is_err());
    rig.rotate("other-password");
    let mut bundles = [
        rig.received.recv().await.unwrap().bundle,
        rig.received.recv().await.unwrap().bundle,
    ];
    bundles.sort();
    assert_eq!(bundles.map(|it| it.to_string()), ["b-a", "b-b"]);
    rig.changes.release(&"b-b".parse().unwrap());
    rig.rotate("third-password");
    assert_eq!(rig.received.recv().await.unwrap().bundle.as_str(), "b-a");
    sleep(Duration::from_secs(100)).await;
    assert!(rig.received.try_recv().is_err());
    let watches = rig.cluster.take_requests();
    assert_eq!(watches, ["watch /api/v1/namespaces/shop/secrets"]);
}

#[tokio::test(start_paused = true)]
async fn creation_and_deletion_are_changes() {
    let mut rig = Rig::new(FakeCluster::default());
    rig.follow("b-a");
    sleep(Duration::from_secs(5)).await;
    assert!(rig.received.try_recv().is_err());
    rig.rotate("first-password");
    assert_eq!(
        rig.received.recv().await.unwrap().secret.to_string(),
        "Secret shop/db"
    );
    rig.cluster.remove(PATH);
    rig.received.recv().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn change_between_read_and_watch_is_noticed() {
    let mut rig = Rig::new(cluster());
    rig.follow("b-a");
    rig.rotate("other-password");
    rig.received.recv().await.unwrap();
    // A second deployment on the same watch, with an old version.
    let name = SecretName {
        namespace: "shop".to_owned(),
        name: "db".to_owned(),
    };
    rig.changes
        .follow(&"b-b".parse().unwrap(), "deployer", [(name, None)].into());
    assert_eq!(rig.received.recv().await.unwrap().bundle.as_str(), "b-b");
}

#[tokio::test(start_paused = true)]
async fn account_without_watches_reads_every_thirty_seconds() {
    let cluster = cluster();
    cluster.set_fault(|verb, _| (verb == "watch").then(|| refused(403, "forbidden")));
    let mut rig = Rig::new(cluster);
    rig.follow("b-a");
    sleep(Duration::from_secs(95)).await;
    let reads = rig
        .cluster
        .take_requests()
        .into_iter()
        .filter(|it| it.starts_with("get"))
        .count();
    assert_eq!(reads, 4);
    let start = Instant::now();
    rig.rotate("other-password");
    rig.received.recv().await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(30));
}
