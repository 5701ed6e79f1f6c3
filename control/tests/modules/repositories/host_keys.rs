//! Host keys: read from the server, confirmed by a person, and given to repositories.

use super::*;

const OTHER_KEY: &str = "git.example ssh-rsa BBBB\n";
/// `printf AAAA | base64 -d | sha256sum`, in base64 without padding.
const FINGERPRINT: &str = "SHA256:cJ6AyISHokEeHuTfufIqhhSS0gxHZRUMDHlKvXD4FHw";

#[tokio::test]
async fn scanned_host_keys_count_once_a_person_has_confirmed_them() {
    let world = World::new().await;
    world.server.said().gives_no_keys = true;
    world.server.said().scanned = Some(format!("{HOST_KEY}{OTHER_KEY}"));
    let list = world.rig.get(&admin(), "/v1/git-servers").await.good();
    let none = json!([{ "name": "git.example", "source": "none", "hostKeys": [] }]);
    assert_eq!(list["items"], none);
    let path = "/v1/git-servers/git.example/host-keys";
    let found = world.rig.get(&admin(), path).await.good();
    let key = json!({ "type": "ssh-ed25519", "fingerprint": FINGERPRINT });
    assert_eq!(found["found"][0], key);
    assert_eq!(found["found"].as_array().unwrap().len(), 2);
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let shown = world.rig.get(&admin(), "/clusters/c-one").await.good();
    assert_eq!(
        shown["gitRepo"]["hostKeys"],
        Value::Null,
        "nobody confirmed them"
    );

    let body = json!({ "fingerprints": [FINGERPRINT] });
    let status = world.rig.post(&admin(), path, body).await.good();
    let confirmed = json!({ "name": "git.example", "source": "confirmed", "hostKeys": [key] });
    assert_eq!(status, confirmed);
    world
        .make(
            "two",
            json!({ "url": "ssh://git@git.example/clusters/two.git" }),
        )
        .await;
    world
        .becomes("/clusters/c-two", "created", Value::Null)
        .await;
    let shown = world.rig.get(&admin(), "/clusters/c-two").await.good();
    assert_eq!(shown["gitRepo"]["hostKeys"], HOST_KEY);
}

#[tokio::test]
async fn other_keys_than_the_servers_cannot_be_confirmed() {
    let world = World::new().await;
    let path = "/v1/git-servers/git.example/host-keys";
    let body = json!({ "fingerprints": [FINGERPRINT] });
    let away = world.rig.post(&admin(), path, body.clone()).await;
    assert_eq!(away.code(), fairlead_api::Code::NoHostKeys);
    world.server.said().scanned = Some(OTHER_KEY.to_owned());
    let other = world.rig.post(&admin(), path, body.clone()).await;
    assert_eq!(other.code(), fairlead_api::Code::OtherHostKeys);
    let missing = "/v1/git-servers/elsewhere/host-keys";
    let missing = world.rig.post(&admin(), missing, body).await;
    assert_eq!(missing.code(), fairlead_api::Code::NotFound);
    let none = world
        .rig
        .post(&admin(), path, json!({ "fingerprints": [] }))
        .await;
    assert_eq!(none.code(), fairlead_api::Code::Invalid);
}
