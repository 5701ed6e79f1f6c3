//! The check of exchanges against the public API descriptions finds each kind of difference.

use std::sync::LazyLock;

use fairlead_repositories::KnownRepo;
use serde_json::{Value, json};

use crate::{
    description::{Description, Exchange},
    fakes::{Fake, FakeKind, Fault},
    host::{desired, open},
};

/// Difference of an exchange about the deploy keys of a repository.
fn difference<'a>(kind: FakeKind, change: impl FnOnce(&mut Exchange<'a>)) -> Option<String> {
    static REQUEST: LazyLock<Value> =
        LazyLock::new(|| json!({ "title": "steward", "key": "ssh-ed25519 AAAA" }));
    static ANSWER: LazyLock<Value> = LazyLock::new(|| json!({ "id": 1, "title": "steward" }));
    let path: &'a [&'a str] = match kind {
        FakeKind::GitLab => &["projects", "acme/edge", "deploy_keys"],
        FakeKind::Gitea | FakeKind::GitHub => &["repos", "acme", "edge", "keys"],
    };
    let mut exchange = Exchange {
        method: "POST",
        path,
        query: Vec::new(),
        request: &REQUEST,
        status: 201,
        answer: &ANSWER,
    };
    change(&mut exchange);
    Description::of(kind).check(&exchange).err()
}

#[test]
fn described_exchanges_pass() {
    for kind in FakeKind::ALL {
        assert_eq!(difference(kind, |_| {}), None);
    }
}

#[test]
fn each_difference_is_found() {
    let number = json!({ "title": "steward", "key": 7 });
    let keyless = json!({ "title": "steward" });
    let unknown = json!({ "title": "steward", "key": "ssh-ed25519 AAAA", "colour": "red" });
    let text = json!({ "id": "1" });
    let renamed = json!({ "id": 1, "tytle": "steward" });
    for kind in FakeKind::ALL {
        let requests: [(&Value, &str); 3] = [
            (&number, "request.key does not fit"),
            (&keyless, "request.key is missing"),
            (&unknown, "request.colour is no field"),
        ];
        for (request, expected) in requests {
            let found = difference(kind, |it| it.request = request).unwrap();
            assert!(found.contains(expected), "{kind:?}: {found}");
        }
        let answers = [
            (&text, "answer.id does not fit"),
            (&renamed, "answer.tytle is no field"),
        ];
        for (answer, expected) in answers {
            let found = difference(kind, |it| it.answer = answer).unwrap();
            assert!(found.contains(expected), "{kind:?}: {found}");
        }
        let found = difference(kind, |it| it.query = vec!["colour"]).unwrap();
        assert!(found.contains("no query parameter colour"), "{found}");
        let found = difference(kind, |it| it.method = "PATCH").unwrap();
        assert!(found.contains("no operation PATCH"), "{found}");
        if kind != FakeKind::GitLab {
            let found = difference(kind, |it| it.status = 202).unwrap();
            assert!(found.contains("no answer 202"), "{found}");
        }
    }
}

#[test]
fn entries_of_lists_and_values_of_enums_are_checked() {
    let request = json!({ "tree": [{ "path": "a", "mode": "100600", "type": "blob" }] });
    let found = difference(FakeKind::GitHub, |it| {
        it.path = &["repos", "acme", "edge", "git", "trees"];
        it.request = &request;
    });
    assert!(found.unwrap().contains("tree[0].mode does not fit"));
}

#[tokio::test]
async fn a_wrong_answer_of_a_fake_is_found() {
    for kind in FakeKind::ALL {
        let fake = Fake::start(kind).await;
        fake.set_fault(Some(Fault::UnknownField));
        let opened = open(fake.as_ref());
        let (wish, none) = (desired("faults/edge"), KnownRepo::default());
        opened.ensure(&wish, &none).await.unwrap();
        let found = std::mem::take(&mut *opened.differences.lock().unwrap());
        assert!(
            found.iter().any(|it| it.contains("no_such_field")),
            "{found:?}"
        );
    }
}
