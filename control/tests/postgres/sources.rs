//! Sources on several hubs, of which one polls.

use std::time::Duration;

use fairlead_runtime::Process;
use fairlead_testkit::git_server::GitServer;
use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    hub::{Rig, admin},
    rig::home,
};

const SOURCE: &str = "/v1/sources/s-a";
const POLL_DEADLINE: Duration = Duration::from_secs(60);

/// The source as this hub shows it, as soon as it meets the condition.
async fn shown(rig: &Rig, condition: impl Fn(&Value) -> bool) -> Value {
    let mut revisions = rig.control.revision();
    let shown = async {
        loop {
            revisions.mark_unchanged();
            let reply = rig.get(&admin(), SOURCE).await;
            if reply.status.is_success() && condition(&reply.json()) {
                return reply.good();
            }
            revisions.changed().await.unwrap();
        }
    };
    timeout(POLL_DEADLINE, shown).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_that_does_not_poll_shows_the_result_too() {
    let home = home().await;
    let folder = tempfile::tempdir().unwrap();
    let server = GitServer::start(folder.path().to_owned()).await;
    server.refuse(500);
    let place = |config: &mut fairlead_control::Config| config.store = Some(home.place());
    let [one, two] = [Rig::with(place).await, Rig::with(place).await];
    let git = json!({ "url": server.url(), "ref": "main", "paths": ["shop"] });
    let body = json!({ "tenant": "t-default", "git": git });
    one.call(&admin(), Method::PUT, SOURCE, body).await.good();
    let new = shown(&two, |_| true).await;
    assert_eq!(
        (&new["syncing"], &new["since"]),
        (&json!(true), &json!(null))
    );

    let process = Process::new();
    let modules = one.control.seam().modules;
    let delivery = modules.into_iter().find(|it| it.name() == "delivery");
    let work = tokio::spawn({
        let (delivery, process) = (delivery.unwrap(), process.clone());
        async move { delivery.run(process).await }
    });
    let polled = shown(&two, |it| !it["reason"].is_null()).await;
    let reason = polled["reason"].as_str().unwrap();
    assert!(reason.starts_with("FL-6601"), "{polled}");
    assert_eq!(polled["syncing"], false);
    assert_eq!(shown(&one, |it| !it["reason"].is_null()).await, polled);
    work.abort();
}
