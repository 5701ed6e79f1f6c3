//! Compile pipelines of tenants.

use std::collections::BTreeSet;

use fairlead_api::Code;
use fairlead_control::repositories::VariableSource;

use super::*;

impl World {
    /// Waits until the latest call for the tenant has these variables.
    async fn variables(&self, expected: &[(&str, VariableSource)]) {
        let found = async {
            loop {
                let asked = self.server.asked.notified();
                let last = {
                    let said = self.server.said();
                    let mut of = said.asked.iter().rev();
                    of.find(|it| it.owner.as_str() == "t-acme").cloned()
                };
                let is_it = last.is_some_and(|it| {
                    let names: BTreeSet<_> = it.ci_variables.keys().cloned().collect();
                    names.len() == expected.len()
                        && expected.iter().all(|(name, of)| {
                            it.ci_variables.get(*name).map(|it| &it.source) == Some(of)
                        })
                });
                if is_it {
                    return;
                }
                asked.await;
            }
        };
        timeout(Duration::from_secs(60), found).await.unwrap();
    }

    async fn pipeline_clusters(&self, expected: Value) {
        let mut revisions = self.rig.control.revision();
        let shown = async {
            loop {
                revisions.mark_unchanged();
                let shown = self.rig.get(&admin(), "/tenants/t-acme").await.good();
                if shown["compilePipeline"]["clusters"] == expected {
                    return;
                }
                revisions.changed().await.unwrap();
            }
        };
        timeout(Duration::from_secs(60), shown).await.unwrap();
    }
}

fn text(text: &str) -> VariableSource {
    VariableSource::Text(text.to_owned())
}

#[tokio::test]
async fn a_pipeline_follows_the_switches_of_its_clusters() {
    let world = World::new().await;
    let repo = json!({ "url": "ssh://git@git.example/t/acme.git" });
    world.tenant("t-acme", repo, Value::Null).await;
    let pipeline = json!({ "compilePipeline": {
        "enabled": true,
        "pipelineFiles": { ".gitlab-ci.yml": "stages: []\n" },
        "apiToken": { "name": "compile" },
    } });
    world.patch("/tenants/t-acme", pipeline).await;
    world
        .files("t-acme", |it| !it.contains_key(".gitlab-ci.yml"))
        .await;
    for id in ["c-two", "c-one", "c-off"] {
        let body = json!({ "id": id, "tenant": "t-acme", "enableCompilation": id != "c-off" });
        world.rig.post(&admin(), "/clusters", body).await.good();
    }
    let url = text("https://hub.example:8443");
    let token = VariableSource::Credential(fairlead_api::resources::ValueSource {
        name: "compile".to_owned(),
        key: None,
    });
    let of = |clusters: &str| {
        [
            ("CLUSTERS", text(clusters)),
            ("COMMODORE_API_TOKEN", token.clone()),
            ("COMMODORE_API_URL", url.clone()),
        ]
    };
    world.variables(&of("c-one c-two")).await;
    world
        .files("t-acme", |it| it.contains_key(".gitlab-ci.yml"))
        .await;
    world.pipeline_clusters(json!(["c-one", "c-two"])).await;

    let off = json!({ "enableCompilation": false });
    world.patch("/clusters/c-one", off).await;
    world.variables(&of("c-two")).await;
    let disabled = json!({ "compilePipeline": { "enabled": false } });
    world.patch("/tenants/t-acme", disabled).await;
    world.variables(&[]).await;
    world.pipeline_clusters(Value::Null).await;
}

#[tokio::test]
async fn variables_of_people_win_over_the_pipeline() {
    let world = World::new().await;
    let repo = json!({
        "url": "ssh://git@git.example/t/acme.git",
        "ciVariables": { "CLUSTERS": { "valueFrom": { "name": "mine" } } },
        "templateFiles": { "ci.yml": "mine" },
    });
    world
        .tenant("t-acme", repo, json!({ "enableCompilation": true }))
        .await;
    let pipeline =
        json!({ "compilePipeline": { "enabled": true, "pipelineFiles": { "ci.yml": "built" } } });
    world.patch("/tenants/t-acme", pipeline).await;
    let body = json!({ "id": "c-one", "tenant": "t-acme" });
    world.rig.post(&admin(), "/clusters", body).await.good();
    world.pipeline_clusters(json!(["c-one"])).await;
    let asked = world.server.said().asked.clone();
    let last = asked
        .iter()
        .rev()
        .find(|it| it.owner.as_str() == "t-acme")
        .unwrap();
    let clusters = &last.ci_variables["CLUSTERS"].source;
    assert!(
        matches!(clusters, VariableSource::Credential(_)),
        "{clusters:?}"
    );
    assert_eq!(
        last.files["ci.yml"],
        DesiredFile::Declared("mine".to_owned())
    );
}

#[tokio::test]
async fn a_denied_group_is_shown_with_its_code() {
    let world = World::new().await;
    let denied = GitServerError::Denied(Code::GroupNotAllowed, "not this group".to_owned());
    world.server.says("c-one", Some(denied));
    world.make("one", json!({ "url": URL })).await;
    let state = world
        .becomes("/clusters/c-one", "failed", json!("not this group"))
        .await;
    assert_eq!(state["code"], "FL-4144");
}

#[tokio::test]
async fn access_tokens_of_clusters_reach_the_pipeline_by_reference() {
    let world = World::new().await;
    let repo = json!({ "url": "ssh://git@git.example/t/acme.git" });
    let template = json!({ "enableCompilation": true, "gitRepo": { "accessToken": {} } });
    world.tenant("t-acme", repo, template).await;
    let enabled = json!({ "compilePipeline": { "enabled": true } });
    world.patch("/tenants/t-acme", enabled).await;
    let body = json!({ "id": "c-one-two", "tenant": "t-acme", "gitRepo": { "url": URL } });
    world.rig.post(&admin(), "/clusters", body).await.good();
    let token = VariableSource::Credential(fairlead_api::resources::ValueSource {
        name: "c-one-two.access-token".to_owned(),
        key: None,
    });
    world
        .variables(&[
            ("ACCESS_TOKEN_c_one_two", token),
            ("CLUSTERS", text("c-one-two")),
            ("COMMODORE_API_URL", text("https://hub.example:8443")),
        ])
        .await;
    let shown = world.rig.get(&admin(), "/clusters/c-one-two").await.good();
    let expected = json!({ "state": "valid", "expiresAt": "2027-01-01" });
    assert_eq!(shown["gitRepo"]["state"]["accessToken"], expected);
    assert_eq!(shown["gitRepo"]["accessToken"]["role"], "maintainer");
    for wrong in [
        json!({ "role": "owner" }),
        json!({ "scopes": ["sudo"] }),
        json!({ "lifetimeDays": 1 }),
    ] {
        let body = json!({ "gitRepo": { "accessToken": wrong } });
        let caller = admin();
        let path = "/clusters/c-one-two";
        let refused = world.rig.call(&caller, Method::PATCH, path, body).await;
        assert_eq!(refused.code(), Code::Invalid);
    }
}
