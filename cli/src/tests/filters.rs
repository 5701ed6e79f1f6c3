//! Filters of lists. A filter that cannot match is an error.

use super::{FLEET, hub::TestHub};

#[test]
fn filter_that_can_match_nothing_is_an_error_with_a_next_step() {
    let hub = TestHub::start();
    hub.applied(FLEET);
    for (line, exit, code) in [
        ("cluster list --tenant nosuch", 4, "FL-4107"),
        ("tenant list --tenant nosuch", 4, "FL-4107"),
        ("token list --tenant nosuch", 4, "FL-4107"),
        ("cluster token list --tenant nosuch", 4, "FL-4107"),
        ("cluster compiled --tenant nosuch", 4, "FL-4107"),
        ("audit --tenant nosuch", 4, "FL-4107"),
        ("audit --cluster c-typo", 4, "FL-1301"),
        ("changes --tenant nosuch", 4, "FL-4107"),
        ("changes --id c-typo", 4, "FL-4107"),
        ("changes --id typo", 2, "FL-4109"),
        ("changes --kind foo", 2, "FL-4117"),
        ("cluster list -l env=(", 2, "FL-4109"),
        ("cluster list --fact =x", 2, "FL-4109"),
        ("facts c-edge --fact nosuch", 4, "FL-4107"),
        ("cluster agent set c-edge --facts-off nosuch", 2, "FL-4109"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = hub.run(&words);
        assert!(said.code == exit, "{line}: {said:?}");
        assert!(
            said.stderr.ends_with(&format!("code:  {code}\n")),
            "{line}: {said:?}"
        );
        assert!(
            said.stderr.contains("\nnext:  ") && said.stdout.is_empty(),
            "{line}: {said:?}"
        );
    }
    for line in [
        "cluster list --fact cloud=aws -o name",
        "cluster list --fact cloud:aws -o name",
        "cluster list --tenant acme -o name",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let found = hub.run(&words).success();
        assert!(found == "c-edge\n", "{line}: {found}");
    }
    // A deleted cluster is known to the log, so its name is no mistake.
    hub.run(&["cluster", "delete", "c-edge", "--yes"]).success();
    hub.run(&["tenant", "delete", "t-acme", "--yes"]).success();
    for line in [
        "audit --cluster c-edge -o name",
        "audit --tenant acme -o name",
        "changes --id c-edge -o name",
        "changes --tenant acme -o name",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let found = hub.run(&words).success();
        assert!(found.contains("c-edge"), "{line}: {found}");
    }
}

#[test]
fn facts_that_have_changed_since_are_asked_for_in_pages() {
    let hub = TestHub::start();
    hub.applied(FLEET);
    let changed = ["facts", "--fact", "cloud", "--since", "7d", "-o", "name"];
    let changed = hub.run(&changed).success();
    assert!(changed == "c-edge\n", "{changed}");
    let history = [
        "facts",
        "c-edge",
        "--since",
        "7d",
        "-o",
        "jsonpath={.items[*].value}",
    ];
    let history = hub.run(&history).success();
    assert!(history.contains("aws"), "{history}");
}

#[test]
fn clusters_are_found_by_name_and_missing_ones_are_listed() {
    let hub = TestHub::start();
    let id = hub.json(&["cluster", "create", "demo"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let log = ["audit", "--cluster", "demo", "-o", "name"];
    let log = hub.run(&log).success();
    assert!(log == format!("{id}\n"), "{log}");
    let list = ["cluster", "list", "--tenant", "default", "-o", "name"];
    let list = hub.run(&list).success();
    assert!(list == format!("{id}\n"), "{list}");
    let make = ["token", "create", "steward", "--role", "cluster"];
    let make = [
        &make[..],
        &["--cluster", "demo", "-o", "jsonpath={.cluster}"],
    ]
    .concat();
    let made = hub.run(&make).success();
    assert!(made.trim() == id, "{made}");
    hub.run(&["cluster", "delete", "demo", "--yes"]).success();
    let log = [
        "audit",
        "--cluster",
        &id,
        "-o",
        "jsonpath={.items[*].operation}",
    ];
    let log = hub.run(&log).success();
    assert!(log.contains("deleted"), "{log}");
    let gone = hub.run(&["audit", "--cluster", "demo"]);
    gone.failed(4, "FL-1301");
    assert!(gone.stderr.contains("\"demo\""), "{gone:?}");
    let gone = hub.run(&["token", "delete", "k-none", "--yes"]);
    gone.failed(4, "FL-4107");
    let cause = "no token has the id or name \"k-none\"";
    assert!(gone.stderr.contains(cause), "{gone:?}");
}
