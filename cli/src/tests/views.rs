//! Commands that show everything in the API: compiled catalogs, desired state, changes, search results, the
//! caller.

use serde_json::{Value, json};

use super::{FLEET, hub::TestHub};

/// A cluster of a tenant with a template.
pub(super) fn fleet() -> TestHub {
    let hub = TestHub::start();
    hub.applied(FLEET);
    let template = "id: t-acme\nclusterTemplate: {facts: {sla: gold}}\n";
    hub.applied(template);
    hub
}

#[test]
fn every_view_of_a_cluster_has_its_facts() {
    let hub = fleet();
    let effective = hub.json(&["cluster", "effective", "Edge"]);
    assert!(
        effective["facts.sla"] == json!({ "value": "gold", "from": "template" }),
        "{effective}"
    );
    let table = hub.said(&["cluster", "effective", "c-edge"]);
    assert!(
        table.starts_with("FIELD") && table.contains("facts.cloud") && table.contains("cluster\n"),
        "{table}"
    );
    let names = hub.said(&["cluster", "effective", "c-edge", "-o", "name"]);
    assert!(names.contains("facts.sla\n"), "{names}");
    let config = hub.json(&["cluster", "config", "Edge"]);
    assert!(
        config["facts"]["contactPrefixes"] == json!(["a8r.io/"]),
        "{config}"
    );
    let table = hub.said(&["cluster", "config", "Edge"]);
    assert!(table.contains("facts.contactPrefixes"), "{table}");
    let sessions = hub.json(&["cluster", "sessions", "Edge"]);
    assert!(sessions == json!({ "items": [] }), "{sessions}");
    let none = hub.run(&["cluster", "sessions", "Edge"]);
    assert!(none.stderr == "No sessions found.\n", "{none:?}");
    assert!(none.success().is_empty());
}

#[test]
fn changes_catalogs_search_and_caller_are_shown() {
    let hub = fleet();
    hub.said(&["cluster", "set", "Edge", "--fact", "cloud=gcp", "--yes"]);
    let audit = hub.said(&["audit", "--cluster", "c-edge", "--limit", "1"]);
    assert!(audit.contains("aws > "), "{audit}");
    let audit = hub.json(&["audit", "--tenant", "t-acme"]);
    let revisions = audit["items"].as_array().unwrap().iter();
    let revisions: Vec<_> = revisions.filter_map(|it| it["revision"].as_u64()).collect();
    let last = revisions.last().unwrap().to_string();
    assert!(revisions.len() > 2 && revisions.is_sorted_by(|a, b| a >= b));
    let none = ["audit", "--tenant", "t-acme", "--before", &last];
    assert!(hub.json(&none) == json!({ "items": [] }));
    let of_edge = ["cluster", "compiled", "--tenant", "t-acme", "-o"];
    let of_edge = hub.said(&[&of_edge[..], &["jsonpath={.items[*].cluster}"]].concat());
    assert!(of_edge == "c-edge\n", "{of_edge:?}");

    let old = hub.json(&["cluster", "compiled", "--stale-days", "1"]);
    let old: Vec<_> = old["items"].as_array().unwrap().iter().collect();
    assert!(old.iter().any(|it| it["cluster"] == "c-edge"), "{old:?}");
    let component = ["cluster", "compiled", "--component", "x", "--below", "v2"];
    let none = hub.run(&component);
    assert!(none.stderr == "No compiled components found.\n", "{none:?}");
    assert!(none.success().is_empty());
    let alone = hub.run(&["cluster", "compiled", "--below", "v2"]);
    assert!(alone.code == 2, "{alone:?}");

    let found = hub.file("found.yaml", "nodes: {count: 3}\nsite: Berlin\n");
    let stored = hub.said(&["inventory", "store", "Edge", "-f", &found]);
    assert!(stored == "Stored 2 facts of c-edge.\n", "{stored}");
    let query = "SELECT LAST(count) FROM nodes GROUP BY cluster";
    let table = hub.said(&["inventory", "query", query]);
    assert!(
        table.starts_with("nodes cluster=c-edge\ntime") && table.ends_with("3\n"),
        "{table}"
    );
    let strange = hub.run(&["inventory", "query", "DROP x"]);
    assert!(strange.code == 2, "{strange:?}");

    let who = hub.json(&["whoami"]);
    assert!(who["role"] == "admin", "{who}");
    let table = hub.said(&["whoami"]);
    assert!(table.contains("fairlead:admin"), "{table}");
}

#[test]
fn paging_back_from_a_revision_misses_no_line_of_the_audit() {
    let hub = fleet();
    for id in ["c-one", "c-two"] {
        let create = ["cluster", "create", id, "--id", id, "--tenant", "t-acme"];
        hub.said(&create);
    }
    // One change of four lines: three clusters and their tenant.
    hub.said(&["tenant", "delete", "t-acme", "--cascade", "--yes"]);
    let lines = |audit: &Value| -> Vec<(u64, u64)> {
        let items = audit["items"].as_array().unwrap().iter();
        let place = |it: &Value| Some((it["revision"].as_u64()?, it["part"].as_u64()?));
        items.map(|it| place(it).unwrap()).collect()
    };
    let all = lines(&hub.json(&["audit", "--limit", "1000"]));
    for limit in ["1", "3", "5"] {
        let mut pages = Vec::new();
        let mut before: Option<String> = None;
        loop {
            let mut args = vec!["audit", "--limit", limit, "-o", "json"];
            if let Some(before) = &before {
                args.extend(["--before", before]);
            }
            let output = hub.run(&args);
            let more = output.stderr.contains("there is more: --before ");
            let page = lines(&serde_json::from_str(&output.success()).unwrap());
            let last = page.last().unwrap().0;
            pages.extend(page);
            if !more {
                break;
            }
            before = Some(last.to_string());
        }
        assert!(pages == all, "{limit}: {pages:?}, not {all:?}");
    }
    let newest = lines(&hub.json(&["audit", "--limit", "1"]));
    assert!(newest.len() == 4, "{newest:?}");
}

#[test]
fn deletion_of_a_token_needs_confirmation() {
    let hub = fleet();
    let created = ["token", "create", "ci", "--role", "viewer"];
    let created = hub.json(&created);
    let id = created["id"].as_str().unwrap();
    for command in [
        &["cluster", "token", "renew", "Edge"][..],
        &["cluster", "token", "revoke", "Edge"],
        &["token", "delete", id],
    ] {
        let unasked = hub.run(command);
        assert!(unasked.stderr.ends_with("code:  FL-4118\n"), "{unasked:?}");
        hub.run(&[command, &["--yes"]].concat()).success();
    }
}
