//! Hubs that share their keys through the store.

use fairlead_api::Code;
use fairlead_control::{Config, Control};
use fairlead_store::Place;
use tempfile::TempDir;

use crate::rig::config;

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const OTHER: &str = "YWJjZGVmZ2hpamFiY2RlZmdoaWphYmNkZWZnaGlqYWI=";

/// A hub in its own folder, with the store in `shared`.
fn hub(dir: &TempDir, shared: &TempDir, key: &str) -> Config {
    Config {
        store: Some(Place::File(shared.path().join("shared.db"))),
        store_key: Some(key.to_owned().into()),
        ..config(dir)
    }
}

#[tokio::test]
async fn a_second_hub_shares_the_first_ones_authority() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = Control::open(hub(&one, &one, KEY)).await.unwrap();
    let ca = first.ca_pem().to_owned();
    // A file belongs to one hub at a time.
    first.close().await;
    drop(first);
    let second = Control::open(hub(&two, &one, KEY)).await.unwrap();
    assert_eq!(ca, second.ca_pem());
    for name in ["ca.key", "bootstrap.key"] {
        let text = |dir: &TempDir| std::fs::read_to_string(dir.path().join("data").join(name));
        assert_eq!(text(&one).unwrap(), text(&two).unwrap(), "{name}");
    }
    second.close().await;
    // Releases the folder for the next hub.
    drop(second);
    let again = Control::open(hub(&two, &one, KEY)).await.unwrap();
    again.close().await;
    // The store reveals nothing of the keys.
    let key = std::fs::read_to_string(one.path().join("data/bootstrap.key")).unwrap();
    let file = std::fs::read(one.path().join("shared.db")).unwrap();
    let found = file.windows(key.len()).any(|it| it == key.as_bytes());
    assert!(!found);
}

#[tokio::test]
async fn another_sealing_key_and_other_keys_are_refused() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = Control::open(hub(&one, &one, KEY)).await.unwrap();
    first.close().await;
    drop(first);
    let refused = async |config: Config| Control::open(config).await.err().unwrap();
    let failure = refused(hub(&two, &one, OTHER)).await;
    assert_eq!(failure.code, Code::DataDir, "{failure}");
    assert!(!two.path().join("data/ca.key").exists());
    let alone = Control::open(config(&two)).await.unwrap();
    alone.close().await;
    drop(alone);
    let failure = refused(hub(&two, &one, KEY)).await;
    assert!(failure.cause.contains("belongs to other hubs"), "{failure}");
    let failure = refused(hub(&two, &one, "no key")).await;
    assert_eq!(failure.code, Code::BadConfig);
}
