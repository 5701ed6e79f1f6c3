//! Deploy keys that the hub makes: their declaration, and their public halves in the status.

use super::*;

fn declared(key: Value) -> Value {
    json!({ "gitRepo": { "deployKeys": { "ci": key } } })
}

#[tokio::test]
async fn public_half_is_shown_and_known_at_the_next_call() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let patch = declared(json!({ "generate": true, "writeAccess": true }));
    world
        .asked_after("c-one", world.patch("/clusters/c-one", patch))
        .await;
    let state = world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    assert_eq!(
        state["generatedKeys"],
        json!({ "ci": { "key": "ssh-ed25519 AAAA", "fingerprint": "SHA256:x" } })
    );
    let shown = world.rig.get(&admin(), "/clusters/c-one").await.good();
    assert_eq!(
        shown["gitRepo"]["deployKeys"],
        json!({ "ci": { "generate": true, "writeAccess": true } })
    );
    let none = declared(Value::Null);
    world
        .asked_after("c-one", world.patch("/clusters/c-one", none))
        .await;
    let known = world.server.said().known.last().cloned().unwrap();
    assert_eq!(known.generated_keys["ci"].key, "ssh-ed25519 AAAA");
    let state = world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    assert_eq!(state["generatedKeys"], Value::Null);
}

#[tokio::test]
async fn contradictory_declarations_are_refused() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    let one = json!({ "generate": true });
    for (body, cause) in [
        (
            declared(json!({ "generate": true, "key": "ssh-rsa AAAA" })),
            "either key or generate",
        ),
        (declared(json!({ "writeAccess": true })), "is missing"),
        (declared(json!({ "generate": false })), "is missing"),
        (declared(json!({ "generate": "yes" })), "true or false"),
        (
            json!({ "gitRepo": { "deployKeys": { "steward-next": one } } }),
            "reserved for the agent",
        ),
        (
            json!({ "gitRepo": { "deployKeys": { "../ci": one } } }),
            "inner dashes",
        ),
        (
            json!({ "gitRepo": { "deployKeys": { "a".repeat(41): one } } }),
            "at most 40",
        ),
    ] {
        let (admin, path) = (admin(), "/clusters/c-one");
        let call = world.rig.call(&admin, Method::PATCH, path, body.clone());
        let answer = call.await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer.text.contains(cause), "{body}: {answer:?}");
    }
}
