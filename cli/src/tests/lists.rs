//! Lists and descriptions.

use super::hub::TestHub;

/// A hub whose clusters and tenants have short names, and the longest ones.
fn crowded() -> TestHub {
    let hub = TestHub::start();
    let long = |prefix: &str| prefix.to_owned() + &"x".repeat(63 - prefix.len());
    let text = "a text that goes on and on ".repeat(12);
    hub.applied(&format!(
        "{{id: t-acme, displayName: Acme, gitRepo: {{type: unmanaged}}}}\n---\n\
         {{id: c-edge, tenant: t-acme, displayName: edge, facts: {{cloud: aws}}}}\n---\n\
         {{id: {cluster}, tenant: t-acme, displayName: {name}, facts: {{cloud: {text:?}}}}}\n",
        cluster = long("c-"),
        name = long("name-"),
    ));
    let renamed = long("another-name-");
    let set = ["cluster", "set", &long("c-"), "--name", &renamed, "--yes"];
    hub.said(&set);
    hub
}

#[test]
fn empty_list_is_a_sentence_on_stderr_and_a_list_in_json() {
    let hub = TestHub::start();
    for (args, told) in [
        (&["cluster", "list"][..], "No clusters found.\n"),
        (&["tenant", "list", "--text", "none"], "No tenants found.\n"),
        (&["token", "list", "--text", "none"], "No tokens found.\n"),
        (
            &["cluster", "token", "list"],
            "No bootstrap tokens found.\n",
        ),
        (&["find", "host", "a.example"], "No clusters found.\n"),
    ] {
        let none = hub.run(args);
        assert!(none.stderr == told, "{args:?}: {none:?}");
        assert!(none.success().is_empty());
        let json = [args, &["-o", "json"]].concat();
        let json = hub.run(&json);
        assert!(json.stderr.is_empty(), "{json:?}");
        let json: serde_json::Value = serde_json::from_str(&json.success()).unwrap();
        assert!(
            json == serde_json::json!({ "items": [] }),
            "{args:?}: {json}"
        );
    }
}

#[test]
fn lists_have_items_and_columns_of_ones_own() {
    let hub = crowded();
    let list = ["cluster", "list", "--text", "edge", "-o"];
    let with = |format: &str| hub.run(&[&list[..], &[format]].concat()).success();
    assert!(with("jsonpath={.items[*].id}") == "c-edge\n");
    let columns = "custom-columns=ID:.id,CLOUD:.facts.cloud,NONE:.none";
    assert!(with(columns) == "ID      CLOUD  NONE\nc-edge  aws    <none>\n");
    assert!(with("jsonpath={.none}").is_empty());
}

#[test]
fn description_has_status_facts_and_changes_but_no_secret() {
    let hub = crowded();
    let long = format!("c-{}", "x".repeat(61));
    let text = "a text that goes on and on ".repeat(2);
    let shown = hub.run(&["cluster", "describe", &long]).success();
    for part in [
        "State:  Never since ",
        "Next:   Run the install command in the cluster",
        "Bootstrap token:  valid, valid until ",
        "Agent sessions:  none",
        "Facts:\n",
        "Last changes:\n",
        "displayName: name-",
        &text,
    ] {
        assert!(shown.contains(part), "no {part:?}: {shown}");
    }
    let token = ["cluster", "token", "show", "edge", "-o", "jsonpath={.join}"];
    let join = hub.run(&token).success();
    let edge = hub.run(&["cluster", "describe", "edge"]).success();
    let token = ["cluster", "token", "show", "edge", "-o"];
    for field in ["jsonpath={.installURL}", "jsonpath={.agentInstallURL}"] {
        let url = hub.run(&[&token[..], &[field]].concat()).success();
        assert!(url.contains("://") && !edge.contains(url.trim()), "{edge}");
    }
    assert!(!edge.contains(join.trim()), "{edge}");
    let tenant = hub.run(&["tenant", "describe", "t-acme"]).success();
    for part in [
        "Name:     Acme\n",
        "Clusters:\n",
        "c-edge",
        "Last changes:\n",
    ] {
        assert!(tenant.contains(part), "no {part:?}: {tenant}");
    }
}

#[test]
fn tenants_and_tokens_are_listed_by_filter_and_order() {
    let hub = TestHub::start();
    let tenants = "\
{id: t-b, displayName: Alpha, gitRepo: {type: unmanaged}, annotations: {sla: gold}}
---
{id: t-a, displayName: Omega, gitRepo: {type: unmanaged}, tenantRef: t-b}
";
    let tenants = hub.file("tenants.yaml", tenants);
    let apply = ["tenant", "apply", "-f", &tenants];
    hub.run(&apply).success();
    hub.run(&[
        "cluster", "create", "edge", "--tenant", "t-a", "--id", "c-edge",
    ])
    .success();
    hub.run(&[
        "token", "create", "ci", "--role", "viewer", "--tenant", "t-a",
    ])
    .success();
    for (args, expected) in [
        (&["tenant", "list"][..], "t-b\nt-default\nt-a\n"),
        (
            &["tenant", "list", "--sort-by", "id"],
            "t-a\nt-b\nt-default\n",
        ),
        (&["tenant", "list", "--tenant", "t-b"], "t-b\nt-a\n"),
        (&["tenant", "list", "-l", "sla in (gold)"], "t-b\n"),
        (&["tenant", "list", "--text", "OMEGA"], "t-a\n"),
        (&["cluster", "token", "list", "--tenant", "t-a"], "c-edge\n"),
        (&["cluster", "token", "list", "--text", "nothing"], ""),
    ] {
        let names = hub.run(&[args, &["-o", "name"]].concat());
        let names = names.success();
        assert!(names == expected, "{args:?}: {names:?}");
    }
    for asked in [["--tenant", "t-a"], ["--text", "CI"]] {
        let name = ["-o", "jsonpath={.items[*].name}"];
        let tokens = hub.run(&[&["token", "list"][..], &asked, &name].concat());
        let tokens = tokens.success();
        assert!(tokens == "ci\n", "{asked:?}: {tokens:?}");
    }
    let bad = hub.run(&["tenant", "list", "--sort-by", "tenant"]);
    assert!(bad.stderr.contains("sort_by"), "{bad:?}");
}
