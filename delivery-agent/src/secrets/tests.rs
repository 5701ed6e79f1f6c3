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
    SecretInputs::read(&cluster(), inputs, "shop", USER).await
}

fn waits_with(error: SecretError) -> (Code, String) {
    match error {
        SecretError::Waiting(failure) => (failure.code, failure.cause),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn values_go_into_helm_values() {
    let inputs = [
        input("db", "password", "values.db.auth.password"),
        input("db", "password", "values.top"),
    ];
    let secrets = read(&inputs).await.unwrap();
    let mut values = Map::new();
    values.insert("db".to_owned(), json!({"user": "shop", "auth": null}));
    secrets.add_to_helm_values(&mut values).unwrap();
    assert_eq!(
        Value::Object(values),
        json!({"db": {"user": "shop", "auth": {"password": "hunter2-hunter2"}}, "top": "hunter2-hunter2"})
    );
    assert_eq!(secrets.versions.len(), 1);
    let debug = format!("{secrets:?}");
    assert!(
        debug.contains("values.top") && !debug.contains("hunter2"),
        "{debug}"
    );
    let masked = secrets
        .masker()
        .unwrap()
        .mask("the password is hunter2-hunter2!");
    assert_eq!(masked, "the password is ***!");
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused() {
    let mut values = Map::new();
    values.insert("db".to_owned(), json!("text"));
    let secrets = read(&[input("db", "password", "values.db.password")])
        .await
        .unwrap();
    let Err(SecretError::Permanent(failure)) = secrets.add_to_helm_values(&mut values) else {
        panic!("accepted");
    };
    assert_eq!(failure.code, Code::SecretUnusable);
    let secrets = read(&[input("db", "bytes", "values.a")]).await.unwrap();
    assert!(secrets.add_to_helm_values(&mut Map::new()).is_err());
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
    let error = SecretInputs::read(&cluster, &inputs, "shop", USER)
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
    let error = SecretInputs::read(&cluster, &inputs, "shop", USER)
        .await
        .unwrap_err();
    assert!(matches!(error, SecretError::Unavailable(_)), "{error:?}");
}

fn lookup(name: &str) -> Option<Cow<'static, Value>> {
    (name == "vars.user").then(|| Cow::Owned(json!("shop")))
}

async fn replaced(object: Value) -> Result<Value, ReplaceError> {
    let inputs = [
        input("db", "password", "vars.password"),
        input("db", "bytes", "vars.bytes"),
    ];
    let secrets = read(&inputs).await.unwrap();
    let mut object = object;
    replace_variables(&mut object, &secrets, &lookup).map(|()| object)
}

#[tokio::test]
async fn variables_of_secrets_are_replaced_in_secrets() {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${vars.user}"},
        "data": {"a": "${vars.password}", "b": "${vars.bytes}", "c": "eA=="},
        "stringData": {"url": "pg://${vars.user}:${vars.password}@db", "plain": "${HOME}"},
    });
    let object = replaced(object).await.unwrap();
    assert_eq!(object["metadata"]["name"], "shop");
    assert_eq!(object["data"]["a"], STANDARD.encode("hunter2-hunter2"));
    assert_eq!(
        object["data"]["b"],
        STANDARD.encode([0xff, 0xfe, 0, 1, 2, 3])
    );
    assert_eq!(object["data"]["c"], "eA==");
    assert_eq!(object["stringData"]["url"], "pg://shop:hunter2-hunter2@db");
    assert_eq!(object["stringData"]["plain"], "${HOME}");
}

#[tokio::test]
async fn variables_of_secrets_are_refused_elsewhere() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x${vars.password}"}});
    let annotation = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "annotations": {"a": "${vars.password}"}}});
    let part = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "x${vars.password}"}});
    for object in [map, annotation, part] {
        let Err(ReplaceError::Secret(SecretError::Permanent(failure))) =
            replaced(object.clone()).await
        else {
            panic!("accepted: {object}");
        };
        assert_eq!(failure.code, Code::SecretMisused);
        assert!(
            failure.cause.contains("${vars.password}"),
            "{}",
            failure.cause
        );
        assert!(!failure.cause.contains("hunter2"));
    }
    let binary = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": "${vars.bytes}"}});
    assert!(replaced(binary).await.is_err());
    let missing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "${vars.no}"}});
    assert!(matches!(
        replaced(missing).await,
        Err(ReplaceError::Variable(_))
    ));
}

#[tokio::test]
async fn value_that_looks_like_a_variable_stays() {
    let cluster = FakeCluster::default();
    cluster.apply_now(PATH, "site", &secret("a${vars.user}$${vars.user}"));
    let inputs = [input("db", "password", "vars.password")];
    let secrets = SecretInputs::read(&cluster, &inputs, "shop", USER)
        .await
        .unwrap();
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": "${vars.password}"}});
    replace_variables(&mut object, &secrets, &lookup).unwrap();
    assert_eq!(object["stringData"]["a"], "a${vars.user}$${vars.user}");
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
