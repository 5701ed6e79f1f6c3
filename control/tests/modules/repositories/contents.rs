//! Declared content of repositories, from documents to requests.

use fairlead_api::Code;
use secrecy::ExposeSecret;

use super::*;
use crate::rig::Reply;

fn declared(content: &str) -> DesiredFile {
    DesiredFile::Declared(content.to_owned())
}

impl World {
    async fn send(&self, method: Method, path: &str, body: Value) -> Reply {
        self.rig.call(&admin(), method, path, body).await
    }

    /// Waits until the latest call satisfies `check`.
    async fn last_call(&self, check: impl Fn(&RepoSecrets, &DesiredRepo) -> bool) {
        let found = async {
            loop {
                let asked = self.server.asked.notified();
                let last = {
                    let said = self.server.said();
                    said.secrets.last().cloned().zip(said.asked.last().cloned())
                };
                if last.is_some_and(|(secrets, desired)| check(&secrets, &desired)) {
                    return;
                }
                asked.await;
            }
        };
        timeout(Duration::from_secs(60), found).await.unwrap();
    }

    async fn shown_files(&self, path: &str) -> Value {
        let shown = self.rig.get(&admin(), path).await.good();
        shown["gitRepo"]["templateFiles"].clone()
    }
}

#[tokio::test]
async fn files_of_people_win_and_reach_the_server() {
    let world = World::new().await;
    let repo = json!({
        "url": "ssh://git@git.example/t/acme.git",
        "templateFiles": {
            "common.yml": "parameters: {}\n",
            ".gitlab-ci.yml": "stages: []\n",
            "old/file.yml": { "delete": true },
        },
    });
    world.tenant("t-acme", repo, Value::Null).await;
    let files = |it: &BTreeMap<String, DesiredFile>| {
        it.get("common.yml") == Some(&declared("parameters: {}\n"))
            && it.get(".gitlab-ci.yml") == Some(&declared("stages: []\n"))
            && it.get("old/file.yml") == Some(&DesiredFile::Deleted)
    };
    world.files("t-acme", files).await;
    world
        .becomes("/tenants/t-acme", "created", Value::Null)
        .await;

    let fewer = json!({ "gitRepo": { "templateFiles": { "common.yml": null } } });
    world.patch("/tenants/t-acme", fewer).await;
    let built_in = |it: &BTreeMap<String, DesiredFile>| {
        matches!(it.get("common.yml"), Some(DesiredFile::Content { .. }))
    };
    world.files("t-acme", built_in).await;
    let known = world.server.said().known.last().cloned().unwrap();
    assert_eq!(known.files["common.yml"], "parameters: {}\n");
}

#[tokio::test]
async fn files_of_the_template_reach_its_clusters() {
    let world = World::new().await;
    let repo = json!({ "type": "unmanaged" });
    let template = json!({ "gitRepo": { "templateFiles": { "a": "of all", "b": "of all" } } });
    world.tenant("t-acme", repo, template).await;
    let body = json!({
        "id": "c-one", "tenant": "t-acme",
        "gitRepo": { "url": URL, "templateFiles": { "b": "own" } },
    });
    world.rig.post(&admin(), "/clusters", body).await.good();
    let both = |it: &BTreeMap<String, DesiredFile>| {
        it.get("a") == Some(&declared("of all")) && it.get("b") == Some(&declared("own"))
    };
    world.files("c-one", both).await;
    let expected = json!({ "a": "of all", "b": "own" });
    assert_eq!(world.shown_files("/clusters/c-one").await, expected);
}

#[tokio::test]
async fn put_keeps_files_that_it_does_not_name_and_a_patch_clears_them() {
    let world = World::new().await;
    let repo = json!({ "url": URL, "templateFiles": { "a": "1" } });
    world.make("one", repo).await;
    let tenant = world.rig.get(&admin(), "/clusters/c-one").await.good()["tenant"].clone();
    let body = json!({ "tenant": tenant, "gitRepo": { "url": URL } });
    world
        .send(Method::PUT, "/clusters/c-one", body)
        .await
        .good();
    let files = world.shown_files("/clusters/c-one").await;
    assert_eq!(files, json!({ "a": "1" }));
    let none = json!({ "gitRepo": { "templateFiles": null } });
    world.patch("/clusters/c-one", none).await;
    assert_eq!(world.shown_files("/clusters/c-one").await, Value::Null);
}

#[tokio::test]
async fn paths_outside_of_the_repository_are_refused_with_their_code() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    for path in ["../a", "a/.git/config"] {
        let body = json!({ "gitRepo": { "templateFiles": { path: "text" } } });
        let answer = world.send(Method::PATCH, "/clusters/c-one", body).await;
        assert_eq!(answer.status.as_u16(), 400);
        assert_eq!(answer.code(), Code::BadRepoFile);
    }
}

const SECRET: &str = "s3cret-of-the-ci";

#[tokio::test]
async fn values_of_variables_reach_the_server_and_no_answer() {
    let world = World::new().await;
    let variable = json!({ "value": SECRET, "masked": true });
    let repo = json!({ "url": URL, "ciVariables": { "TOKEN": variable } });
    world.make("one", repo.clone()).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let opened = world.server.said().secrets.last().cloned().unwrap();
    assert_eq!(opened.values["TOKEN"].expose_secret(), SECRET);

    let shown = world.rig.get(&admin(), "/clusters/c-one").await.good();
    let variables = &shown["gitRepo"]["ciVariables"];
    let digest = variables["TOKEN"]["digest"].as_str().unwrap();
    let expected = json!({ "TOKEN": { "masked": true, "digest": digest } });
    assert_eq!(*variables, expected);
    let same = json!({ "gitRepo": { "ciVariables": repo["ciVariables"] } });
    world.patch("/clusters/c-one", same).await;
    let again = world.rig.get(&admin(), "/clusters/c-one").await.good();
    let version = &shown["version"];
    assert_eq!(&again["version"], version, "the same value is no change");

    // A document that was read has no value, and keeps it.
    let repo = json!({ "url": URL, "ciVariables": { "TOKEN": {} } });
    let read = json!({ "tenant": "t-default", "gitRepo": repo });
    world
        .send(Method::PUT, "/clusters/c-one", read)
        .await
        .good();
    let plain = |it: &RepoSecrets, of: &DesiredRepo| {
        let kept = it.values.get("TOKEN").map(|it| it.expose_secret());
        kept == Some(SECRET) && !of.ci_variables["TOKEN"].masked
    };
    world.last_call(plain).await;
    for path in [
        "/v1/audit?cluster=c-one",
        "/clusters",
        "/v1/changes?since=first",
    ] {
        let text = world.rig.get(&admin(), path).await.text;
        assert!(!text.contains(SECRET), "{path}");
    }
}

#[tokio::test]
async fn wrong_variables_are_refused_with_their_code_and_without_their_value() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    for variables in [
        json!({ "A-B": { "value": SECRET } }),
        json!({ "A": { "sealed": SECRET } }),
        json!({ "A": { "value": SECRET, "valueFrom": { "name": "x" } } }),
    ] {
        let body = json!({ "gitRepo": { "ciVariables": variables } });
        let answer = world.send(Method::PATCH, "/clusters/c-one", body).await;
        assert_eq!(answer.code(), Code::BadCiVariable);
        assert!(!answer.text.contains(SECRET), "{}", answer.text);
    }
}
