//! Creation, drift, files of tenants, and the end of repositories.

use fairlead_control::repositories::{KnownRepo, RetiredRepo, Retirement};

use super::*;

impl World {
    async fn status_of_delete(&self, path: &str) -> u16 {
        let caller = admin();
        let answer = self.rig.call(&caller, Method::DELETE, path, Value::Null);
        answer.await.status.as_u16()
    }

    pub(super) async fn delete(&self, path: &str) {
        assert_eq!(self.status_of_delete(path).await, 204);
    }

    /// Waits until the server has retired this many repositories.
    pub(super) async fn retired(&self, count: usize) -> Vec<RetiredRepo> {
        let done = async {
            loop {
                let asked = self.server.asked.notified();
                let retired = self.server.said().retired.clone();
                if retired.len() >= count {
                    return retired;
                }
                asked.await;
            }
        };
        timeout(Duration::from_secs(60), done).await.unwrap()
    }

    pub(super) async fn tenant(&self, id: &str, repo: Value, template: Value) {
        let body = json!({ "id": id, "gitRepo": repo, "clusterTemplate": template });
        self.rig.post(&admin(), "/tenants", body).await.good();
    }

    /// Waits until the files of this owner's latest request satisfy `check`.
    pub(super) async fn files(
        &self,
        owner: &str,
        check: impl Fn(&BTreeMap<String, DesiredFile>) -> bool,
    ) {
        let found = async {
            loop {
                let asked = self.server.asked.notified();
                let last = {
                    let said = self.server.said();
                    let mut of = said.asked.iter().rev();
                    of.find(|it| it.owner.to_string() == owner).cloned()
                };
                if last.is_some_and(|it| check(&it.files)) {
                    return;
                }
                asked.await;
            }
        };
        timeout(Duration::from_secs(60), found).await.unwrap();
    }
}

fn class(content: &str) -> DesiredFile {
    DesiredFile::Content {
        content: content.to_owned(),
        earlier: Vec::new(),
    }
}

#[tokio::test]
async fn a_first_request_is_a_creation_and_later_ones_know_it() {
    let world = World::new().await;
    world.server.said().is_silent = true;
    world.make("one", json!({ "url": URL })).await;
    let state = world
        .becomes("/clusters/c-one", "creating", Value::Null)
        .await;
    assert!(state["lastTry"].is_string(), "{state}");
    world.server.said().is_silent = false;
    world
        .asked_after("c-one", later(Duration::from_secs(60)))
        .await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let key = json!({ "gitRepo": { "deployKey": "ssh-ed25519 AAAA" } });
    world
        .asked_after("c-one", world.patch("/clusters/c-one", key))
        .await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    let none = json!({ "gitRepo": { "deployKey": null } });
    world
        .asked_after("c-one", world.patch("/clusters/c-one", none))
        .await;
    let known = world.server.said().known.last().cloned().unwrap();
    let expected = KnownRepo {
        url: Some(URL.to_owned()),
        deploy_keys: ["steward".to_owned()].into(),
        ..KnownRepo::default()
    };
    assert_eq!(known, expected);
}

#[tokio::test]
async fn corrected_differences_are_shown_as_drift() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    let state = world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    assert_eq!(state["drift"], Value::Null);
    world.server.said().corrected = vec!["description".to_owned()];
    let mut revisions = world.rig.control.revision();
    world
        .later_asked("c-one", Duration::from_secs(3 * 3600))
        .await;
    let shown = async {
        loop {
            revisions.mark_unchanged();
            let state = world.state("/clusters/c-one").await;
            if !state["drift"].is_null() {
                return state;
            }
            revisions.changed().await.unwrap();
        }
    };
    let state = timeout(Duration::from_secs(60), shown).await.unwrap();
    assert_eq!(state["drift"]["corrected"], json!(["description"]));
    assert_eq!(state["phase"], "created");
}

#[tokio::test]
async fn a_tenants_repository_has_a_file_for_each_cluster() {
    let world = World::new().await;
    let url = "ssh://git@git.example/tenants/acme.git";
    world.tenant("acme", json!({ "url": url }), json!({})).await;
    world
        .becomes("/tenants/t-acme", "created", Value::Null)
        .await;
    let body = json!({ "id": "edge", "tenant": "t-acme" });
    world.rig.post(&admin(), "/clusters", body).await.good();
    let own = class("classes:\n- t-acme.common\n");
    let with_edge = [
        ("c-edge.yml".to_owned(), own),
        ("common.yml".to_owned(), class("")),
    ];
    world
        .files("t-acme", |files| *files == with_edge.clone().into())
        .await;
    assert_eq!(world.state("/tenants/t-acme").await["phase"], "created");
    world.delete("/clusters/c-edge").await;
    let removed = DesiredFile::Absent {
        earlier: vec!["classes:\n- t-acme.common\n".to_owned()],
    };
    let is_removed = |files: &BTreeMap<_, _>| files.get("c-edge.yml") == Some(&removed);
    world.files("t-acme", is_removed).await;
    // Once the server has removed it, nobody remembers the file.
    world
        .files("t-acme", |files| !files.contains_key("c-edge.yml"))
        .await;
}

#[tokio::test]
async fn deletions_retire_repositories_by_policy() {
    let world = World::new().await;
    let at = |name: &str| format!("ssh://git@git.example/clusters/{name}.git");
    for (id, policy) in [
        ("kept", json!("Retain")),
        ("ended", json!("Delete")),
        ("old", Value::Null),
    ] {
        world.make(id, json!({ "url": at(id) })).await;
        let path = format!("/clusters/c-{id}");
        world.becomes(&path, "created", Value::Null).await;
        world
            .patch(&path, json!({ "deletionPolicy": policy }))
            .await;
        world.delete(&path).await;
    }
    let retired = world.retired(2).await;
    let retired: Vec<_> = (retired.into_iter())
        .map(|it| (it.owner.to_string(), it.url, it.retirement))
        .collect();
    let expected = [
        ("c-ended".to_owned(), at("ended"), Retirement::Delete),
        ("c-old".to_owned(), at("old"), Retirement::Archive),
    ];
    assert_eq!(retired, expected);
    world.no_record_is_left().await;
}

#[tokio::test]
async fn a_tenants_repository_follows_the_policy_of_its_template() {
    let world = World::new().await;
    let url = "ssh://git@git.example/tenants/acme.git";
    let template = json!({ "deletionPolicy": "Delete" });
    world.tenant("acme", json!({ "url": url }), template).await;
    world
        .becomes("/tenants/t-acme", "created", Value::Null)
        .await;
    world.delete("/tenants/t-acme").await;
    let retired = world.retired(1).await;
    assert_eq!(retired[0].retirement, Retirement::Delete);
    assert_eq!(retired[0].url, url);
}

#[tokio::test]
async fn a_refused_retirement_is_retried_until_done() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    world.server.says("c-one", refused("no right to archive"));
    world.delete("/clusters/c-one").await;
    world.retired(1).await;
    let mut revisions = world.rig.control.revision();
    let noted = async {
        loop {
            revisions.mark_unchanged();
            if world.waiting().await[0]["reason"] == "no right to archive" {
                return;
            }
            revisions.changed().await.unwrap();
        }
    };
    timeout(Duration::from_secs(60), noted).await.unwrap();
    world.server.says("c-one", None);
    while world.server.said().retired.len() < 2 {
        let asked = world.server.asked.notified();
        later(Duration::from_secs(10)).await;
        let _ = timeout(Duration::from_millis(100), asked).await;
    }
    world.no_record_is_left().await;
}

#[tokio::test]
async fn a_repository_with_a_new_owner_is_kept() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    // The same repository in another form.
    let heir = json!({ "url": "git@git.example:clusters/one.git" });
    world.make("heir", heir).await;
    world.delete("/clusters/c-one").await;
    world.no_record_is_left().await;
    assert_eq!(world.server.said().retired, Vec::new());
}

#[tokio::test]
async fn a_protected_cluster_keeps_its_repository() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    world
        .patch("/clusters/c-one", json!({ "deleteProtection": true }))
        .await;
    assert_eq!(world.status_of_delete("/clusters/c-one").await, 409);
    assert_eq!(world.waiting().await, Vec::<Value>::new());
}

impl World {
    /// Repositories of deleted owners.
    async fn waiting(&self) -> Vec<Value> {
        let page = self
            .rig
            .get(&admin(), "/v1/retired-repositories")
            .await
            .good();
        page["items"].as_array().unwrap().clone()
    }

    /// Waits until no repository of a deleted owner is left.
    async fn no_record_is_left(&self) {
        let mut revisions = self.rig.control.revision();
        let done = async {
            loop {
                revisions.mark_unchanged();
                if self.waiting().await.is_empty() {
                    return;
                }
                revisions.changed().await.unwrap();
            }
        };
        timeout(Duration::from_secs(60), done).await.unwrap();
    }
}

#[tokio::test]
async fn an_operator_keeps_a_retired_repository() {
    let world = World::new().await;
    world.make("one", json!({ "url": URL })).await;
    world
        .becomes("/clusters/c-one", "created", Value::Null)
        .await;
    world.server.says("c-one", refused("no right to archive"));
    world.delete("/clusters/c-one").await;
    world.retired(1).await;
    let id = world.waiting().await[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/retired-repositories/{id}");
    world.delete(&path).await;
    assert_eq!(world.waiting().await, Vec::<Value>::new());
    assert_eq!(world.status_of_delete(&path).await, 404);
}
