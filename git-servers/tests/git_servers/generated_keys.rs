//! Assertions about deploy keys that the hub makes, for all providers.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use fairlead_api::resources::{DeployKey, GeneratedKey};
use fairlead_repositories::{DesiredRepo, GitServerError, KnownRepo, ReportedRepo};

use crate::{
    fakes::{Fake, FakeKind, Fault},
    host::{Host, Opened, deploy_key, desired, known, open, open_with},
};

const PATH: &str = "generated/edge";
const FILE: &str = "t-acme/c-edge.deploy-key.ci";

/// A hub with a folder for credentials.
fn hub(fake: &Arc<Fake>, home: &Path) -> Opened {
    let folder = home.to_owned();
    open_with(fake.as_ref(), |it| it.credentials_dir = Some(folder))
}

fn wish() -> DesiredRepo {
    let ci = DeployKey {
        generate: true,
        write_access: true,
        ..DeployKey::default()
    };
    let mut wish = desired(PATH);
    wish.deploy_keys = [
        ("ci".to_owned(), ci),
        ("steward".to_owned(), deploy_key(1, false)),
    ]
    .into();
    wish
}

fn after(made: &ReportedRepo) -> KnownRepo {
    KnownRepo {
        deploy_keys: made.deploy_keys.clone(),
        generated_keys: made.generated_keys.clone(),
        ..known(PATH)
    }
}

fn key_of(made: &ReportedRepo) -> GeneratedKey {
    made.generated_keys["ci"].clone()
}

/// Type and base64 of the key with this title, and its right to write.
async fn on_server(fake: &Fake, title: &str) -> Option<(String, bool)> {
    let keys = fake.observe(PATH).await.unwrap().keys;
    let found = keys.into_iter().find(|it| it.0 == title)?;
    Some((found.1, found.2))
}

#[tokio::test]
async fn private_half_is_stored_and_the_server_gets_the_public_one() {
    for kind in FakeKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let fake = Fake::start(kind).await;
        let opened = hub(&fake, home.path());
        let made = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        let key = key_of(&made);
        assert_eq!(on_server(&fake, "ci").await, Some((key.key.clone(), true)));
        assert!(key.key.starts_with("ssh-ed25519 "), "{key:?}");
        assert!(key.fingerprint.starts_with("SHA256:"), "{key:?}");
        assert!(!format!("{made:?}").contains("PRIVATE"), "{made:?}");
        let file = home.path().join(FILE);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
        let again = opened.ensure(&wish(), &after(&made)).await.unwrap();
        assert_eq!(again.corrected, Vec::<String>::new());
        assert_eq!(key_of(&again), key);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[tokio::test]
async fn key_that_is_removed_and_declared_again_is_a_new_one() {
    for kind in FakeKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let fake = Fake::start(kind).await;
        let opened = hub(&fake, home.path());
        let first = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        let mut without = wish();
        without.deploy_keys.remove("ci");
        let removed = opened.ensure(&without, &after(&first)).await.unwrap();
        assert_eq!(on_server(&fake, "ci").await, None);
        assert!(removed.generated_keys.is_empty());
        let second = opened.ensure(&wish(), &after(&removed)).await.unwrap();
        assert_ne!(key_of(&second), key_of(&first));
        let key = key_of(&second).key;
        assert_eq!(on_server(&fake, "ci").await, Some((key, true)));
    }
}

#[tokio::test]
async fn lost_private_half_leads_to_a_new_key() {
    for kind in FakeKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let fake = Fake::start(kind).await;
        let opened = hub(&fake, home.path());
        let first = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        fs::remove_file(home.path().join(FILE)).unwrap();
        let second = opened.ensure(&wish(), &after(&first)).await.unwrap();
        assert_ne!(key_of(&second), key_of(&first));
        assert_eq!(second.corrected, ["deploy key ci"]);
        let key = key_of(&second).key;
        assert_eq!(on_server(&fake, "ci").await, Some((key, true)));
    }
}

#[tokio::test]
async fn unreadable_private_half_is_a_failed_try() {
    for kind in FakeKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let fake = Fake::start(kind).await;
        let opened = hub(&fake, home.path());
        let first = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        let file = home.path().join(FILE);
        let text = fs::read_to_string(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let failed = opened.ensure(&wish(), &after(&first)).await;
        let Err(GitServerError::Unavailable(reason)) = failed else {
            panic!("{failed:?}");
        };
        let expected = "reading the generated deploy key: token t-acme/c-edge.deploy-key.ci";
        assert!(reason.contains(expected), "{reason}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let again = opened.ensure(&wish(), &after(&first)).await.unwrap();
        assert_eq!(key_of(&again), key_of(&first));
        // A text of somebody else is no lost one either.
        fs::write(&file, "no key").unwrap();
        let refused = opened.ensure(&wish(), &after(&first)).await;
        assert!(matches!(refused, Err(GitServerError::Rejected(_))));
        assert_eq!(fs::read_to_string(&file).unwrap(), "no key");
    }
}

#[tokio::test]
async fn key_removed_on_the_server_is_added_again() {
    for kind in FakeKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let fake = Fake::start(kind).await;
        let opened = hub(&fake, home.path());
        let first = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        fake.remove_key(PATH, "ci");
        let second = opened.ensure(&wish(), &after(&first)).await.unwrap();
        assert_eq!(key_of(&second), key_of(&first));
        let key = key_of(&first).key;
        assert_eq!(on_server(&fake, "ci").await, Some((key, true)));
    }
}

#[tokio::test]
async fn call_whose_result_was_lost_keeps_its_key() {
    for kind in FakeKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let fake = Fake::start(kind).await;
        let opened = hub(&fake, home.path());
        fake.set_fault(Some(Fault::KeyInUse));
        let refused = opened.ensure(&wish(), &KnownRepo::default()).await;
        assert!(matches!(refused, Err(GitServerError::Rejected(_))));
        fake.set_fault(None);
        let made = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        let again = opened.ensure(&wish(), &KnownRepo::default()).await.unwrap();
        assert_eq!(key_of(&again), key_of(&made));
    }
}

#[tokio::test]
async fn key_without_a_place_is_not_made() {
    for kind in FakeKind::ALL {
        let fake = Fake::start(kind).await;
        let opened = open(fake.as_ref());
        let refused = opened.ensure(&wish(), &KnownRepo::default()).await;
        let Err(GitServerError::Rejected(reason)) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("needs credentials_dir"), "{reason}");
        assert_eq!(on_server(&fake, "ci").await, None);
    }
}
