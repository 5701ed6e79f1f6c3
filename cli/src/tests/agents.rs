//! Settings of agents, and the wait for an agent.

use super::{FLEET, hub::TestHub};

#[test]
fn agents_settings_are_set_one_by_one_and_left_to_the_tenant_again() {
    let hub = TestHub::start();
    hub.applied(FLEET);
    let agent = |words: &[&str]| {
        let words = [&["cluster", "agent"], words].concat();
        hub.run(&words)
    };
    let table = agent(&["get", "c-edge"]).success();
    assert!(table.contains("(inherited)"), "{table}");
    let set = [
        "set",
        "c-edge",
        "--facts-every",
        "10m",
        "--facts-off",
        "helm,hosts",
    ];
    agent(&set).success();
    let nowhere = ["set", "c-edge", "--allow-connect", "", "-o", "json"];
    let shown: serde_json::Value = serde_json::from_str(&agent(&nowhere).success()).unwrap();
    assert!(
        shown["facts"]["intervalSeconds"] == 600
            && shown["facts"]["disabledCollectors"][1] == "hosts",
        "{shown}"
    );
    assert!(shown["allowConnect"] == serde_json::json!([]), "{shown}");
    let left = ["set", "c-edge", "--inherit", "facts", "-o", "yaml"];
    let shown = agent(&left).success();
    assert!(shown == "allowConnect: []\n", "{shown}");
    let never = ["set", "c-edge", "--facts-every", "0s"];
    let wrong = agent(&never);
    assert!(wrong.code == 2, "{wrong:?}");
}

#[test]
fn wait_ends_when_no_agent_can_enrol_any_more() {
    let hub = TestHub::start();
    hub.said(&["cluster", "create", "demo"]);
    hub.run(&["cluster", "wait", "demo", "--for", "never"])
        .success();
    hub.run(&["cluster", "token", "revoke", "demo", "--yes"])
        .success();
    let ended = hub.run(&["cluster", "wait", "demo"]);
    assert!(
        ended.stderr.contains("was revoked") && ended.stderr.contains("token renew c-"),
        "{ended:?}"
    );
    assert!(!ended.stderr.contains("enrolled"), "{ended:?}");
}

#[test]
fn identity_of_a_cluster_without_an_agent_cannot_be_revoked() {
    let hub = TestHub::start();
    hub.said(&["cluster", "create", "demo"]);
    let revoked = hub.run(&["cluster", "identity", "revoke", "demo", "--yes"]);
    assert!(
        revoked.stderr.contains("no agent of c-") && revoked.stderr.contains("token renew c-"),
        "{revoked:?}"
    );
}
