//! The hub as a whole: directory, own certificates, refusals to start.

use std::fs;

use fairlead_api::{
    Code, Failure,
    resources::{CreateToken, Role},
};
use fairlead_control::{Control, FrontFiles, backup::HubData};
use fairlead_runtime::Process;
use fairlead_store::{Clock, Place, dump::migrate};
use fairlead_testkit::tls::{TestCa, TestLeaf};
use time::Duration;

use crate::rig::{Rig, START, config};

#[tokio::test]
async fn two_hubs_never_share_a_directory() {
    let rig = Rig::new().await;
    let failure = Control::open(config(&rig.dir)).await.map(drop).unwrap_err();
    assert_eq!(failure.code, Code::DataDir);
    assert!(failure.cause.contains("another hub"), "{failure}");
    rig.restart().await;
}

#[tokio::test]
async fn keys_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new().await;
    let data = rig.dir.path().join("data");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for key in ["ca.key", "bootstrap.key"] {
        assert_eq!(mode(&data.join(key)), 0o600, "{key}");
    }
}

#[tokio::test]
async fn configuration_mistakes_are_reported() {
    for (spoil, code) in [
        (
            (|c| c.cluster_domain = "not a domain".to_owned()) as fn(&mut fairlead_control::Config),
            Code::BadConfig,
        ),
        (
            |c| c.registry.bootstrap_ttl = std::time::Duration::ZERO,
            Code::BadConfig,
        ),
        (
            |c| c.issuers = Some("/nowhere/issuers.toml".into()),
            Code::BadConfig,
        ),
        (|c| c.data_dir = "/proc/nothing/here".into(), Code::DataDir),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir);
        spoil(&mut config);
        let failure = Control::open(config).await.map(drop).unwrap_err();
        assert_eq!(failure.code, code, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_database_is_named_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    // Nothing listens on this port.
    config.store = Some("postgres://me@127.0.0.1:1/fairlead".parse().unwrap());
    let failure = Control::open(config).await.map(drop).unwrap_err();
    assert_eq!(failure.code, Code::StoreAway);
    for part in ["127.0.0.1:1", "refused"] {
        assert!(failure.cause.contains(part), "{failure}");
    }
}

#[tokio::test]
async fn mistakes_of_issuers_are_found_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("issuers.toml");
    std::fs::write(&file, "[issuer.corp]\nurl = 1\n").unwrap();
    let mut config = config(&dir);
    config.issuers = Some(file);
    let data = config.data_dir.clone();
    let failure = Control::open(config).await.map(drop).unwrap_err();
    assert_eq!(failure.code, Code::BadConfig, "{failure}");
    assert!(!data.exists());
}

/// A stopped hub with one cluster, and its data folder.
async fn ended() -> (tempfile::TempDir, std::path::PathBuf) {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let dir = rig.close().await;
    let data = dir.path().join("data");
    (dir, data)
}

#[tokio::test]
async fn lost_keys_or_database_prevent_the_start_unless_accepted() {
    for (gone, lost) in [
        (&["ca.key", "ca.pem"][..], "enrol again"),
        (&["ca.key"], "enrol again"),
        (&["bootstrap.key"], "bootstrap token"),
        (&["fairlead.db"], "all clusters"),
    ] {
        let (dir, data) = ended().await;
        for name in gone {
            std::fs::remove_file(data.join(name)).unwrap();
        }
        let failure = Control::open(config(&dir)).await.map(drop).unwrap_err();
        assert_eq!(failure.code, Code::DataDir);
        assert!(failure.cause.contains(lost), "{gone:?}: {failure}");
        assert!(
            failure.next_step().contains("--accept-data-loss"),
            "{failure:?}"
        );
        for name in gone {
            assert!(!data.join(name).exists(), "{name} is not made");
        }
        let accepting = fairlead_control::Config {
            accept_data_loss: true,
            ..config(&dir)
        };
        Control::open(accepting).await.unwrap().close().await;
        // From then on the hub starts normally.
        Control::open(config(&dir)).await.unwrap().close().await;
    }
}

#[tokio::test]
async fn the_store_of_a_running_hub_is_neither_migrated_nor_overwritten() {
    let rig = Rig::new().await;
    let there = Place::File(rig.dir.path().join("data/fairlead.db"));
    let other = Place::File(rig.dir.path().join("other.db"));
    for (from, to) in [(&there, &other), (&other, &there)] {
        let failure = Failure::from(migrate(from, to, true).await.unwrap_err());
        assert!(failure.cause.contains("a hub runs on it"), "{failure}");
        assert!(failure.next_step().starts_with("Stop"), "{failure:?}");
    }
    let _dir = rig.close().await;
    migrate(&there, &other, false).await.unwrap();
}

#[tokio::test]
async fn a_local_operator_creates_tokens_with_and_without_a_running_hub() {
    let rig = Rig::new().await;
    let data = HubData {
        data_dir: rig.dir.path().join("data"),
        store: None,
    };
    let asked = |name: &str| CreateToken {
        name: name.to_owned(),
        role: Role::Admin,
        tenant: None,
        cluster: None,
        ttl_seconds: None,
    };
    // The store of a running hub without a socket is not written directly.
    let failure = data.create_token(asked("early")).await.unwrap_err();
    assert!(failure.cause.contains("another hub runs"), "{failure}");
    let process = Process::new();
    rig.control.serve_locally(&process);
    let created = data.create_token(asked("ann")).await.unwrap();
    assert_eq!(
        rig.control.token_expiry(&created.token),
        Some(created.about.expires)
    );
    let refused = data.create_token(asked("not a name")).await.unwrap_err();
    assert_eq!(refused.code, Code::Invalid, "{refused}");
    process.finish(std::time::Duration::from_secs(5)).await;
    let rig = {
        let dir = rig.close().await;
        let created = data.create_token(asked("bob")).await.unwrap();
        let control = Control::open(config(&dir)).await.unwrap();
        assert!(control.token_expiry(&created.token).is_some());
        (control, dir)
    };
    rig.0.close().await;
}

async fn run_once(control: &Control) -> Process {
    let process = Process::new();
    process.start_drain();
    for module in control.seam().modules {
        module.run(process.clone()).await;
    }
    process
}

#[tokio::test]
async fn the_hubs_certificates_are_renewed_at_two_thirds() {
    let rig = Rig::new().await;
    let (mut front, mut session) = (rig.control.front_tls(), rig.control.session_tls());
    front.borrow_and_update();
    session.borrow_and_update();
    let first = rig.control.certificate_expiry();
    rig.advance(Duration::hours(15));
    run_once(&rig.control).await;
    assert!(!front.has_changed().unwrap() && !session.has_changed().unwrap());
    rig.advance(Duration::hours(2));
    let process = run_once(&rig.control).await;
    assert!(front.has_changed().unwrap() && session.has_changed().unwrap());
    let second = rig.control.certificate_expiry();
    assert_eq!(second.hub - first.hub, Duration::hours(17));
    assert_eq!(second.front - first.front, Duration::hours(17));
    assert_eq!(second.ca, first.ca);

    let families = process.registry().gather();
    let family = families
        .iter()
        .find(|f| f.name() == "fairlead_certificate_expiry_timestamp_seconds")
        .unwrap();
    let mut shown: Vec<_> = family
        .get_metric()
        .iter()
        .map(|m| {
            (
                m.get_label()[0].value().to_owned(),
                m.get_gauge().get_value() as i64,
            )
        })
        .collect();
    shown.sort();
    let expected = [
        ("ca", second.ca),
        ("front", second.front),
        ("hub", second.hub),
    ];
    assert_eq!(
        shown,
        expected.map(|(kind, at)| (kind.to_owned(), at.unix_timestamp()))
    );
}

#[tokio::test]
async fn a_configured_certificate_is_served_unchanged_until_its_files_change() {
    let elsewhere = tempfile::tempdir().unwrap();
    let corporate = TestCa::new("corporate").unwrap();
    let files = FrontFiles {
        certificate: elsewhere.path().join("tls.crt"),
        key: elsewhere.path().join("tls.key"),
    };
    let write = |leaf: &TestLeaf| {
        fs::write(&files.certificate, leaf.pem()).unwrap();
        fs::write(&files.key, leaf.key_pem()).unwrap();
    };
    let (first, second) = (
        corporate.leaf(&["hub.example"]).unwrap(),
        corporate.expired_leaf(&["hub.example"]).unwrap(),
    );
    write(&first);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    config.front_files = Some(files.clone());
    let control = Control::open_at(config, Clock::new(|| START + Duration::days(30)))
        .await
        .unwrap();
    let before = control.certificate_expiry();
    let mut front = control.front_tls();
    front.borrow_and_update();
    run_once(&control).await;
    assert!(!front.has_changed().unwrap(), "it is not ours to renew");

    fs::write(&files.certificate, second.pem()).unwrap();
    run_once(&control).await;
    assert!(!front.has_changed().unwrap(), "its key is not there yet");
    assert_eq!(control.certificate_expiry(), before);
    write(&second);
    run_once(&control).await;
    assert!(front.has_changed().unwrap());
    assert!(control.certificate_expiry().front < before.front);
    front.borrow_and_update();
    fs::remove_file(&files.key).unwrap();
    run_once(&control).await;
    assert!(!front.has_changed().unwrap(), "the last one is kept");
    let modules = control.seam().modules;
    let about = modules.iter().find(|m| m.name() == "about").unwrap();
    let people = about
        .user_routes()
        .layer(axum::Extension(crate::rig::principal(&crate::rig::admin())));
    let request = http::Request::get("/v1/hub")
        .body(axum::body::Body::empty())
        .unwrap();
    let response = tower::ServiceExt::oneshot(people, request).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 100_000)
        .await
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(shown["namesCovered"], false);
    assert_eq!(shown["ca"], serde_json::Value::Null);
}
