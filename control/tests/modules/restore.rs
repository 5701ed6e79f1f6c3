//! Access after a restore.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, resources::Role};
use fairlead_certs::{AgentIdentity, SerialPrefix};
use fairlead_control::backup::{HubData, RestoredAccess, RestoredDeliveries, Sink};
use fairlead_testkit::wait::{TEST_DEADLINE, eventually};
use http::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::OffsetDateTime;

use crate::{
    archives::uploaded,
    rig::{FROM, Rig, admin, bootstrap, config},
};

const BUNDLE: &str = "/v1/bundles/b-a";

/// A hub with an enrolled agent, a token and an open bootstrap token, and its backup.
struct BackedUp {
    rig: Rig,
    file: PathBuf,
    identity: AgentIdentity,
    token: SecretString,
    open: String,
    // Folder of the hub, which holds its files open.
    _dir: TempDir,
}

async fn backed_up() -> BackedUp {
    let dir = TempDir::new().unwrap();
    let rig = Rig::opened(config(&dir), OffsetDateTime::now_utc()).await;
    let join = rig.cluster("a", "t-default").await;
    let open = bootstrap(&rig.cluster("b", "t-default").await);
    let (_, identity) = rig.enrolled(&join).await;
    let token = rig.token(Role::Admin).await;
    let artifact = uploaded(&rig, "t-default", &[("a.yaml", "")]).await;
    let bundle = json!({ "tenant": "t-default", "artifact": artifact });
    rig.call(&admin(), Method::PUT, BUNDLE, bundle).await.good();
    let file = rig.dir.path().join("backup");
    let data = HubData {
        data_dir: dir.path().join("data"),
        store: None,
    };
    let sink = Sink::new(Box::new(File::create(&file).unwrap()), &[]).unwrap();
    data.back_up(sink, true).await.unwrap();
    BackedUp {
        rig,
        file,
        identity,
        token,
        open,
        _dir: dir,
    }
}

async fn restored(file: &Path, dir: &TempDir, access: RestoredAccess) -> Rig {
    restored_as(file, dir, access, RestoredDeliveries::Kept).await
}

async fn restored_as(
    file: &Path,
    dir: &TempDir,
    access: RestoredAccess,
    deliveries: RestoredDeliveries,
) -> Rig {
    let data = HubData {
        data_dir: dir.path().join("data"),
        store: None,
    };
    let source = BufReader::new(File::open(file).unwrap());
    // Epochs are seconds of the system's clock: the restore is in a later one than the backup.
    let second = || OffsetDateTime::now_utc().unix_timestamp();
    let backed_up = second();
    let later = async || (second() > backed_up).then_some(());
    eventually(TEST_DEADLINE, "the next second", later)
        .await
        .unwrap();
    data.restore(Box::new(source), false, access, deliveries)
        .await
        .unwrap();
    Rig::opened(config(dir), OffsetDateTime::now_utc()).await
}

async fn refusal_of(rig: &Rig, token: &SecretString) -> Option<Code> {
    let seam = rig.control.seam();
    let caller = seam.authenticator.authenticate(token, FROM).await;
    caller.err().map(|error| error.code())
}

async fn refusal_of_agent(rig: &Rig, identity: &AgentIdentity) -> Option<Code> {
    let admitted = rig.control.seam().directory.admit(identity).await;
    admitted.err().map(|error| error.code())
}

const CONFIRMATION: &str = "/v1/restore/confirmation";

#[tokio::test]
async fn access_from_before_a_restore_is_void_until_an_admin_confirms_it() {
    let before = backed_up().await;
    assert_eq!(refusal_of(&before.rig, &before.token).await, None);
    assert_eq!(refusal_of_agent(&before.rig, &before.identity).await, None);
    let dir = TempDir::new().unwrap();
    let rig = restored(&before.file, &dir, RestoredAccess::AwaitsConfirmation).await;
    assert!(!dir.path().join("data/restoring").exists());
    let void = refusal_of(&rig, &before.token).await;
    assert_eq!(void, Some(Code::BadToken));
    let void = refusal_of_agent(&rig, &before.identity).await;
    assert_eq!(void, Some(Code::IdentityRevoked));
    let csr = fairlead_certs::AgentKey::generate().unwrap().csr().unwrap();
    let spent = rig.enroll(&before.open, &csr).await;
    assert_eq!(spent.code(), Code::BootstrapUnknown);
    let status = rig.get(&admin(), "/v1/ca").await.good();
    assert!(status["unconfirmedRestore"].is_string(), "{status}");

    // Access that is given now is valid at once.
    let fresh = rig.token(Role::Viewer).await;
    assert_eq!(refusal_of(&rig, &fresh).await, None);
    let join = rig.cluster("c", "t-default").await;
    let (_, identity) = rig.enrolled(&join).await;
    assert_ne!(SerialPrefix::epoch_of(&identity.serial), 0);
    assert_eq!(refusal_of_agent(&rig, &identity).await, None);

    let confirmed = rig.post(&admin(), CONFIRMATION, Value::Null).await;
    assert_eq!(confirmed.status, 204);
    assert_eq!(refusal_of(&rig, &before.token).await, None);
    assert_eq!(refusal_of_agent(&rig, &before.identity).await, None);
    let spent = rig.enroll(&before.open, &csr).await;
    assert_eq!(spent.code(), Code::BootstrapUnknown, "void for good");
}

#[tokio::test]
async fn identity_revoked_after_the_backup_stays_revoked() {
    let before = backed_up().await;
    let path = "/v1/clusters/c-a/identity";
    before.rig.delete(&admin(), path).await.good();
    let dir = TempDir::new().unwrap();
    let rig = restored(&before.file, &dir, RestoredAccess::AwaitsConfirmation).await;
    let revoked = Some(Code::IdentityRevoked);
    assert_eq!(refusal_of_agent(&rig, &before.identity).await, revoked);
    rig.delete(&admin(), path).await.good();
    rig.post(&admin(), CONFIRMATION, Value::Null).await.good();
    assert_eq!(refusal_of_agent(&rig, &before.identity).await, revoked);
}

#[tokio::test]
async fn second_restore_of_the_same_backup_voids_the_first_ones_identities() {
    let before = backed_up().await;
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let rig = restored(&before.file, &one, RestoredAccess::AwaitsConfirmation).await;
    let join = rig.cluster("c", "t-default").await;
    let (_, identity) = rig.enrolled(&join).await;
    let rig = restored(&before.file, &two, RestoredAccess::AwaitsConfirmation).await;
    rig.cluster("c", "t-default").await;
    let refused = refusal_of_agent(&rig, &identity).await;
    assert_eq!(refused, Some(Code::IdentityRevoked));
}

#[tokio::test]
async fn killed_restore_is_completed_by_the_next_start() {
    let before = backed_up().await;
    let dir = TempDir::new().unwrap();
    let rig = restored(&before.file, &dir, RestoredAccess::Kept).await;
    assert_eq!(refusal_of(&rig, &before.token).await, None);
    rig.close().await;
    std::fs::write(dir.path().join("data/restoring"), "").unwrap();
    let rig = Rig::opened(config(&dir), OffsetDateTime::now_utc()).await;
    let void = refusal_of(&rig, &before.token).await;
    assert_eq!(void, Some(Code::BadToken));
    assert!(!dir.path().join("data/restoring").exists());
}

/// Numbers of the generations of the bundle, newest first.
async fn generations(rig: &Rig) -> Vec<u64> {
    let bundle = rig.get(&admin(), BUNDLE).await.good();
    let generations = bundle["generations"].as_array().unwrap().iter();
    let numbers = generations.map(|it| it["number"].as_u64().unwrap());
    numbers.collect()
}

#[tokio::test]
async fn bundles_keep_their_generations_unless_they_are_delivered_again() {
    let before = backed_up().await;
    let (again, kept) = (RestoredDeliveries::Again, RestoredAccess::Kept);
    let dir = TempDir::new().unwrap();
    let rig = restored(&before.file, &dir, RestoredAccess::AwaitsConfirmation).await;
    assert_eq!(generations(&rig).await, [1]);
    let mut highest = 1;
    for access in [kept, RestoredAccess::AwaitsConfirmation] {
        let dir = TempDir::new().unwrap();
        let rig = restored_as(&before.file, &dir, access, again).await;
        let raised = generations(&rig).await;
        assert_eq!((raised.len(), raised[1]), (2, 1));
        assert!(raised[0] >= highest + 1_000_000, "{raised:?}");
        highest = raised[0];
        // Further generations count on from there, also those of a bundle that the backup does not know.
        rig.delete(&admin(), BUNDLE).await.good();
        let artifact = uploaded(&rig, "t-default", &[("a.yaml", "")]).await;
        let bundle = json!({ "tenant": "t-default", "artifact": artifact });
        for path in [BUNDLE, "/v1/bundles/b-new"] {
            let put = rig.call(&admin(), Method::PUT, path, bundle.clone()).await;
            let number = put.good()["generations"][0]["number"].as_u64().unwrap();
            assert!(number >= highest, "{path}: {number}");
        }
    }
}
