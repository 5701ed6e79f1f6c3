use fairlead_api::Code;
use serde_json::json;

use super::*;
use crate::{
    status::Problem,
    testing::{Fake, SECRET, SOURCE},
};

const SAVED_PATH: &str = "/api/v1/namespaces/flux-system/secrets/fairlead-gitops-adopted";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

/// Flux of others, with a source and a Secret.
pub(crate) async fn flux_of_others() -> Fake {
    let fake = Fake::start().await;
    fake.configure(|config| config.gitops.install = true);
    fake.world(|world| {
        let deployment = json!({ "metadata": {
            "labels": { "app.kubernetes.io/version": "v2.8.0" },
            "managedFields": [{ "manager": "flux" }],
        } });
        let list = json!({ "items": [deployment] });
        world.objects.insert(DEPLOYMENTS.to_owned(), list);
        let secret = json!({
            "type": "Opaque",
            "metadata": { "name": "flux-system", "resourceVersion": "7" },
            "data": { "identity": "b3duZXI=" },
        });
        world.objects.insert(SECRET.to_owned(), secret);
        let source = json!({
            "metadata": { "name": "flux-system", "resourceVersion": "8" },
            "spec": { "url": "ssh://git@old.example/a.git" },
        });
        world.objects.insert(SOURCE.to_owned(), source);
    });
    fake
}

#[tokio::test]
async fn tool_of_others_is_left_alone() {
    let fake = flux_of_others().await;
    let (worker, mut status) = fake.worker();
    let running = tokio::spawn(worker.run());
    let found = |it: &Option<crate::GitOpsStatus>| it.is_some();
    let reported = status.wait_for(found).await.unwrap().clone().unwrap();
    let Some(problem @ Problem::ToolFound(cause)) = reported.problem() else {
        panic!("{reported:?}");
    };
    assert_eq!(problem.code(), Code::GitOpsToolFound);
    assert!(
        cause.contains("v2.8.0") && cause.contains("flux"),
        "{cause}"
    );
    assert_eq!(reported.to_fact()["found"]["state"], "foreign");
    let written = fake.world(|world| {
        let writes = world.requests.iter().filter(|it| !it.starts_with("GET"));
        writes.cloned().collect::<Vec<_>>()
    });
    assert!(written.is_empty(), "{written:?}");
    running.abort();
}

#[tokio::test]
async fn adoption_saves_objects_and_its_end_returns_them() {
    let fake = flux_of_others().await;
    fake.configure(|config| config.gitops.adopt = true);
    let (worker, mut status) = fake.worker();
    let running = tokio::spawn(worker.run());
    let is_adopted = |it: &Option<crate::GitOpsStatus>| {
        it.as_ref().is_some_and(|it| {
            it.to_fact()["found"]["saved"] == true && it.to_fact()["key"].is_string()
        })
    };
    status.wait_for(is_adopted).await.unwrap();
    fake.world(|world| {
        assert!(
            world.key().is_some(),
            "the agent's key is in the place of theirs"
        );
        assert!(world.objects.contains_key(SAVED_PATH));
        // The delivery brings in the source of the catalog.
        let source = world.objects.get_mut(SOURCE).unwrap();
        source["spec"]["url"] = json!("ssh://git@git.example/a/b.git");
    });
    fake.configure(|config| config.gitops.adopt = false);
    let is_left = |it: &Option<crate::GitOpsStatus>| {
        let problem = it.as_ref().and_then(|it| it.problem());
        matches!(problem, Some(Problem::ToolFound(_)))
    };
    status.wait_for(is_left).await.unwrap();
    fake.world(|world| {
        assert_eq!(world.objects[SECRET]["data"]["identity"], "b3duZXI=");
        assert_eq!(world.objects[SECRET]["type"], "Opaque");
        assert_eq!(
            world.objects[SOURCE]["spec"]["url"],
            "ssh://git@old.example/a.git"
        );
        assert!(
            world.objects.contains_key(SAVED_PATH),
            "until the next round"
        );
    });
    // A change of the configuration begins a round.
    fake.configure(|config| config.gitops.confirmed_key = Some("SHA256:x".to_owned()));
    let mut is_kept = true;
    while is_kept {
        tokio::task::yield_now().await;
        is_kept = fake.world(|world| world.objects.contains_key(SAVED_PATH));
    }
    running.abort();
}

#[test]
fn fields_of_the_api_server_are_not_saved() {
    let object = json!({
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "1", "generation": 2, "managedFields": [],
            "annotations": { "reconcile.fluxcd.io/requestedAt": "now" },
        },
        "spec": {}, "status": {},
    });
    assert_eq!(
        cleaned(object),
        json!({ "metadata": { "name": "a" }, "spec": {} })
    );
}
